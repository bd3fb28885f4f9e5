-- One row for each call. Times are microseconds since 1970 in UTC, durations nanoseconds; an unknown text is empty.
CREATE TABLE calls (
	id              TEXT    NOT NULL PRIMARY KEY,
	time_us         BIGINT  NOT NULL,
	operation       TEXT    NOT NULL,
	dialect         TEXT    NOT NULL,
	stream          BOOLEAN NOT NULL,
	client_name     TEXT    NOT NULL,
	client_version  TEXT    NOT NULL,
	client_key      TEXT    NOT NULL, -- the name of the key, never the key
	client_session  TEXT    NOT NULL,
	model_asked     TEXT    NOT NULL,
	model           TEXT    NOT NULL,
	upstream        TEXT    NOT NULL,
	account         TEXT    NOT NULL,
	outcome         TEXT    NOT NULL,
	class           TEXT    NOT NULL,
	status          BIGINT  NOT NULL,
	error           TEXT    NOT NULL,
	finish          TEXT    NOT NULL,
	first_byte_ns   BIGINT  NOT NULL,
	duration_ns     BIGINT  NOT NULL,
	input_tokens    BIGINT  NOT NULL,
	cached_tokens   BIGINT  NOT NULL,
	output_tokens   BIGINT  NOT NULL,
	thinking_tokens BIGINT  NOT NULL,
	bytes_in        BIGINT  NOT NULL,
	notes           TEXT    NOT NULL  -- a JSON array, or empty
);

-- Listings go from the newest back, and usage is mostly asked for the last days.
CREATE INDEX calls_by_time ON calls (time_us, id);

-- Every start looks for the calls that the last end cut off; there are few, however many calls there are.
CREATE INDEX calls_open ON calls (id) WHERE outcome = 'open';
