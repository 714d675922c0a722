CREATE TABLE `event_gaps` (
	`account_id` integer NOT NULL,
	`after_seq` integer NOT NULL,
	`until_seq` integer NOT NULL,
	PRIMARY KEY(`account_id`, `after_seq`)
) STRICT, WITHOUT ROWID;
