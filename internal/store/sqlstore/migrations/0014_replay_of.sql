-- The call that a call repeats; empty in rows of clients' calls and in rows from before this migration.
ALTER TABLE calls ADD COLUMN replay_of TEXT NOT NULL DEFAULT '';
