CREATE TABLE `attempts` (
	`id` integer PRIMARY KEY NOT NULL,
	`email_id` integer NOT NULL,
	`recipient_id` integer NOT NULL,
	`number` integer NOT NULL,
	`type` integer NOT NULL,
	`at` integer NOT NULL,
	`data` text NOT NULL,
	`dialogue` text
) STRICT;
--> statement-breakpoint
CREATE INDEX `attempts_recipient` ON `attempts` (`email_id`,`recipient_id`);--> statement-breakpoint
ALTER TABLE `recipients` ADD `expires_at` integer;--> statement-breakpoint
CREATE INDEX `recipients_expiring` ON `recipients` (`expires_at`) WHERE expires_at is not null and next_at is not null;--> statement-breakpoint
ALTER TABLE `streams` ADD `expires_in` integer;