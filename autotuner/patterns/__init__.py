"""Recognises the operations of a program as problems, with what is around them."""
