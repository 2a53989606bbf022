"""Recordings in S3-compatible storage, through minio's client."""
