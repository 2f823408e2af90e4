"""How far means are from those of infinitely short steps, and other errors of a result."""
