"""What the tests share: small models, corpora, commands, plain reference implementations."""
