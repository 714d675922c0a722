CREATE TABLE `provider_pairs` (
	`provider` text NOT NULL,
	`source` text NOT NULL,
	`factor` real NOT NULL,
	`learned_per_minute` real,
	`rule` text,
	`reason` text,
	`suspended_at` integer,
	`suspended_until` integer,
	`duration_ms` integer NOT NULL,
	`failures` integer NOT NULL,
	PRIMARY KEY(`provider`, `source`)
) STRICT;
--> statement-breakpoint
ALTER TABLE `accounts` ADD `events_read_at` integer;--> statement-breakpoint
ALTER TABLE `recipients` ADD `wait_noted_at` integer;