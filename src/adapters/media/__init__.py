"""What storage adapters share: whether an object is a recording, judged from a few ranges of its bytes.

Knows no storage: an adapter describes its object as a `StoredObject`.
"""
