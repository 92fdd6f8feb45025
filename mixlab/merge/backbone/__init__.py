"""The language model of a VLM on disk: taken out as a folder of its own, and put back."""
