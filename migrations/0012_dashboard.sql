CREATE TABLE `template_versions` (
	`template_id` integer NOT NULL,
	`version` integer NOT NULL,
	`subject` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`actor_type` text,
	`actor_id` text,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`template_id`, `version`),
	FOREIGN KEY (`template_id`) REFERENCES `templates`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
ALTER TABLE `sessions` ADD `second_factor_at` integer;--> statement-breakpoint
ALTER TABLE `sessions` ADD `password_at` integer;--> statement-breakpoint
ALTER TABLE `users` ADD `operator_at` integer;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `description` text;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `secret_rotated_at` integer;--> statement-breakpoint
ALTER TABLE `webhooks` ADD `failing_since` integer;--> statement-breakpoint
CREATE INDEX `contacts_search` ON `contacts` (`list_id`,`status`,`address_key`);--> statement-breakpoint
CREATE INDEX `inbound_emails_from` ON `inbound_emails` (`account_id`,lower("from_address"));--> statement-breakpoint
CREATE INDEX `newsletters_status` ON `newsletters` (`account_id`,`status`);