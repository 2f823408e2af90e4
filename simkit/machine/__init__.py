"""The computer that simkit runs on."""
