"""One module a group of operations; each has an async function ``run(bench)`` that gives rows."""
