-- Administrative acts. Rows older than a year, and the oldest of more than 100,000, are removed.
CREATE TABLE audit (
	id      TEXT   NOT NULL PRIMARY KEY,
	time_us BIGINT NOT NULL,
	action  TEXT   NOT NULL,
	actor   TEXT   NOT NULL,
	source  TEXT   NOT NULL, -- remote address, or user of the operating system
	object  TEXT   NOT NULL,
	detail  TEXT   NOT NULL,
	result  TEXT   NOT NULL, -- ok, or the class of the error
	call_id TEXT   NOT NULL
);
CREATE INDEX audit_by_time ON audit (time_us, id);
