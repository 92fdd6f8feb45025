"""A plan carried out on files: threads, parts, digests, card, verification."""
