"""When steps are taken and rows are saved."""
