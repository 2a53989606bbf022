"""Ports over PostgreSQL 14 to 18, through psycopg 3."""
