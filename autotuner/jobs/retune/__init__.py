"""A spec after a new IREE or driver: each entry proven again, raced again, and kept, replaced or dropped."""
