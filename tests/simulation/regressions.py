"""Seeds that have found something wrong once, and what it was. They are run first."""

SEEDS = {
    1: "a VM was billed for the time between a look that showed it alive and writing that down",
    13: "a VM was billed until a repeated request to end it was accepted, or until a listing that left its zone out",
    386: "a VM ended before anybody saw it, and what it left kept its lease in releasing for ever",
}
