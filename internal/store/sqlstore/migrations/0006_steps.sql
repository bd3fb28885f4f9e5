-- What was tried for a call, and why: a JSON array, or empty.
ALTER TABLE calls ADD COLUMN steps TEXT NOT NULL DEFAULT '';
