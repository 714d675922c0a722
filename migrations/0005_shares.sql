CREATE TABLE `known_networks` (
	`user_id` integer NOT NULL,
	`network` text NOT NULL,
	`last_seen_at` integer NOT NULL,
	PRIMARY KEY(`user_id`, `network`),
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `known_networks_last_seen` ON `known_networks` (`last_seen_at`);--> statement-breakpoint
ALTER TABLE `complaints` ADD `feedback_loop` text;--> statement-breakpoint
ALTER TABLE `form_asks` ADD `shared_mailbox` blob;--> statement-breakpoint
CREATE INDEX `form_asks_shared_mailbox` ON `form_asks` (`shared_mailbox`,`asked_at`) WHERE shared_mailbox is not null;--> statement-breakpoint
CREATE INDEX `inbound_emails_unrouted` ON `inbound_emails` (`domain_id`,`size_bytes`) WHERE route_id is null;--> statement-breakpoint
ALTER TABLE `resumed_figures` DROP COLUMN `complained`;--> statement-breakpoint
-- A lane is an account's: open recipients of lanes that all accounts shared get the account's row id before their domain.
UPDATE `recipients` SET `lane` = (SELECT `account_id` FROM `emails` WHERE `emails`.`id` = `email_id`) || ':' || `lane`
	WHERE `next_at` IS NOT NULL AND `lane` NOT LIKE 'bulk:%';
