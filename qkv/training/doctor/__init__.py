"""`qkv doctor`: what this machine has, and whether training and decoding are right on a device."""
