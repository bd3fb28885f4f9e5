-- The HTTP status that the client got; 0 in rows from before this migration.
ALTER TABLE calls ADD COLUMN client_status BIGINT NOT NULL DEFAULT 0;
