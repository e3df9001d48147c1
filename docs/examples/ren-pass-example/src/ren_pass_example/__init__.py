"""Moving averages of encrypted vectors: an example of a third-party extension of Ren."""
