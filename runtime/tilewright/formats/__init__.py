"""Data types, by the names that specs use, and as torch and DLPack know them."""
