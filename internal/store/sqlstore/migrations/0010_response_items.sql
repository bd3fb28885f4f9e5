-- Stored responses as trees of items: what conversations have in common is kept once. Rows of the table responses are from
-- before this step. They are read, expire and count for the limit as the new ones do; nothing is rewritten.
CREATE TABLE stored_responses (
	id          TEXT   NOT NULL PRIMARY KEY,
	client_key  TEXT   NOT NULL, -- the name of the key, never the key
	created_us  BIGINT NOT NULL,
	expires_us  BIGINT NOT NULL,
	items       BYTEA  NOT NULL, -- the last item of input and output together; empty: there is none
	input_bytes BIGINT NOT NULL, -- how much of them is input; -1: they are not in the tree, but in plain
	names       TEXT   NOT NULL, -- which calls items are named after; empty: those of the tree
	members     BYTEA  NOT NULL, -- the last of the large members that were cut out of the response; empty: there are none
	response    BYTEA  NOT NULL, -- with a NUL in place of each of them
	plain       BYTEA  NOT NULL, -- input and output, each behind its length, if they are not in the tree
	bytes       BIGINT NOT NULL  -- what this row counts for, without the tree
);

-- The oldest go first. Each lives equally long, so the oldest ends first, too.
CREATE INDEX stored_responses_by_end ON stored_responses (expires_us);

-- An item, or a few small ones, of conversations of one key. The id is a digest of key, parent and body, so that equal
-- beginnings are one path, and so that no row ever changes but for the number of its references.
CREATE TABLE response_items (
	id     BYTEA  NOT NULL PRIMARY KEY,
	parent BYTEA  NOT NULL, -- the item before this one; empty: it is the first
	refs   BIGINT NOT NULL, -- how many responses and items it is the last, or the parent, of; never 0
	name   TEXT   NOT NULL, -- the call that its items were named after first; empty: they have names of their own
	named  BYTEA  NOT NULL, -- a digest of this name and those of all items before
	body   BYTEA  NOT NULL  -- with a NUL where that call is named
);

-- What each key has in the two tables above. One row for each key that has any.
CREATE TABLE response_totals (
	client_key TEXT   NOT NULL PRIMARY KEY,
	responses  BIGINT NOT NULL,
	items      BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);
