CREATE TABLE `broadcast_recipients` (
	`broadcast_id` integer NOT NULL,
	`contact_id` integer NOT NULL,
	`contact_uuid` blob NOT NULL,
	`email` text NOT NULL,
	`metadata` text,
	PRIMARY KEY(`broadcast_id`, `contact_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `broadcasts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`operation_id` integer,
	`newsletter_id` integer,
	`list_id` integer NOT NULL,
	`stream_id` integer NOT NULL,
	`template_id` integer,
	`template_version` integer,
	`from_address` text NOT NULL,
	`subject` text NOT NULL,
	`html_ref` integer,
	`text_ref` integer,
	`size_bytes` integer NOT NULL,
	`template_data` text NOT NULL,
	`extra` text,
	`state` integer NOT NULL,
	`sandbox` integer NOT NULL,
	`total` integer NOT NULL,
	`handed_over` integer NOT NULL,
	`left_out` integer NOT NULL,
	`quota_month` integer,
	`due_at` integer NOT NULL,
	`error` text,
	`actor` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `broadcasts_operation_id_unique` ON `broadcasts` (`operation_id`);--> statement-breakpoint
CREATE INDEX `broadcasts_open` ON `broadcasts` (`state`,`due_at`) WHERE state <= 5;--> statement-breakpoint
CREATE TABLE `contact_imports` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`list_id` integer NOT NULL,
	`operation_id` integer NOT NULL,
	`file` text NOT NULL,
	`size_bytes` integer NOT NULL,
	`confirmed` integer NOT NULL,
	`done_bytes` integer NOT NULL,
	`done_lines` integer NOT NULL,
	`inserted` integer NOT NULL,
	`duplicates` integer NOT NULL,
	`invalid` integer NOT NULL,
	`errors` text NOT NULL,
	`actor` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contact_imports_operation_id_unique` ON `contact_imports` (`operation_id`);--> statement-breakpoint
CREATE INDEX `contact_imports_list` ON `contact_imports` (`list_id`);--> statement-breakpoint
CREATE TABLE `contact_mails` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`contact_id` integer NOT NULL,
	`kind` integer NOT NULL,
	`from_address` text,
	`due_at` integer NOT NULL,
	`attempts` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contact_mails_contact` ON `contact_mails` (`contact_id`,`kind`);--> statement-breakpoint
CREATE INDEX `contact_mails_due` ON `contact_mails` (`due_at`);--> statement-breakpoint
CREATE INDEX `contact_mails_account` ON `contact_mails` (`account_id`,`kind`,`due_at`);--> statement-breakpoint
CREATE TABLE `confirmation_asks` (
	`id` integer PRIMARY KEY NOT NULL,
	`contact_id` integer NOT NULL,
	`asked_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `confirmation_asks_contact` ON `confirmation_asks` (`contact_id`);--> statement-breakpoint
CREATE INDEX `confirmation_asks_age` ON `confirmation_asks` (`asked_at`);--> statement-breakpoint
CREATE TABLE `form_asks` (
	`id` integer PRIMARY KEY NOT NULL,
	`mailbox` blob,
	`contact` blob NOT NULL,
	`asked_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `form_asks_mailbox` ON `form_asks` (`mailbox`,`asked_at`) WHERE mailbox is not null;--> statement-breakpoint
CREATE INDEX `form_asks_contact` ON `form_asks` (`contact`,`asked_at`);--> statement-breakpoint
CREATE INDEX `form_asks_age` ON `form_asks` (`asked_at`);--> statement-breakpoint
CREATE TABLE `contact_lists` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`name` text NOT NULL,
	`description` text,
	`double_opt_in` integer NOT NULL,
	`welcome_enabled` integer NOT NULL,
	`welcome_delay_seconds` integer NOT NULL,
	`welcome_from` text,
	`welcome_subject` text,
	`welcome_html` text,
	`welcome_text` text,
	`welcome_template_id` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	`emptied_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contact_lists_uuid_unique` ON `contact_lists` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `contact_lists_name` ON `contact_lists` (`account_id`,`name`) WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX `contact_lists_account` ON `contact_lists` (`account_id`);--> statement-breakpoint
CREATE INDEX `contact_lists_deleted` ON `contact_lists` (`id`) WHERE deleted_at is not null and emptied_at is null;--> statement-breakpoint
CREATE TABLE `contacts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`list_id` integer NOT NULL,
	`address_key` text NOT NULL,
	`email` text,
	`metadata` text,
	`status` integer NOT NULL,
	`subscribed_at` integer NOT NULL,
	`unsubscribed_at` integer,
	`welcome_sent_at` integer,
	`confirming_since` integer,
	`confirmed_at` integer,
	`opted_in_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contacts_address` ON `contacts` (`account_id`,`address_key`,`list_id`);--> statement-breakpoint
CREATE INDEX `contacts_list` ON `contacts` (`list_id`);--> statement-breakpoint
CREATE INDEX `contacts_status` ON `contacts` (`list_id`,`status`);--> statement-breakpoint
CREATE TABLE `newsletters` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`list_id` integer NOT NULL,
	`subject` text NOT NULL,
	`from_address` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`template_id` integer,
	`template_data` text,
	`reply_to` text,
	`status` integer NOT NULL,
	`operation_id` integer,
	`scheduled_at` integer,
	`sent_at` integer,
	`total_recipients` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `newsletters_uuid_unique` ON `newsletters` (`uuid`);--> statement-breakpoint
CREATE INDEX `newsletters_account` ON `newsletters` (`account_id`);--> statement-breakpoint
CREATE INDEX `newsletters_operation` ON `newsletters` (`operation_id`);--> statement-breakpoint
CREATE TABLE `signup_forms` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`list_id` integer NOT NULL,
	`slug` text NOT NULL,
	`title` text NOT NULL,
	`description` text,
	`from_address` text,
	`redirect_url` text,
	`success_message` text,
	`custom_fields` text NOT NULL,
	`theme` text NOT NULL,
	`messages` text NOT NULL,
	`is_active` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `signup_forms_uuid_unique` ON `signup_forms` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `signup_forms_list_id_unique` ON `signup_forms` (`list_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `signup_forms_slug_unique` ON `signup_forms` (`slug`);--> statement-breakpoint
CREATE INDEX `signup_forms_account` ON `signup_forms` (`account_id`);--> statement-breakpoint
CREATE TABLE `templates` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`alias` text NOT NULL,
	`name` text NOT NULL,
	`subject` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`version` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `templates_uuid_unique` ON `templates` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `templates_alias` ON `templates` (`account_id`,`alias`) WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX `templates_account` ON `templates` (`account_id`);--> statement-breakpoint
ALTER TABLE `emails` ADD `template_id` integer;--> statement-breakpoint
ALTER TABLE `emails` ADD `broadcast_id` integer;--> statement-breakpoint
ALTER TABLE `emails` ADD `list_id` integer;--> statement-breakpoint
CREATE INDEX `emails_of_operation` ON `emails` (`operation_id`,`status`) WHERE operation_id is not null;--> statement-breakpoint
INSERT INTO `counters` (`account_id`, `metric`, `hour`, `value`)
	SELECT `account_id`, 'stream:' || `stream_id` || ':sent', `created_at` / 3600000, count(*) FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
	WHERE `sandbox` = 0 AND `recipients`.`status` NOT IN (6, 7) GROUP BY 1, 2, 3;--> statement-breakpoint
INSERT INTO `counters` (`account_id`, `metric`, `hour`, `value`)
	SELECT `account_id`, 'stream:' || `stream_id` || ':delivered', `recipients`.`delivered_at` / 3600000, count(*) FROM `emails` JOIN `recipients` ON `email_id` = `emails`.`id`
	WHERE `sandbox` = 0 AND `recipients`.`delivered_at` IS NOT NULL GROUP BY 1, 2, 3;--> statement-breakpoint
INSERT INTO `counters` (`account_id`, `metric`, `hour`, `value`)
	SELECT `events`.`account_id`, 'stream:' || `stream_id` || ':bounced', `at` / 3600000, count(*) FROM `events` JOIN `emails` ON `emails`.`id` = `email_id`
	WHERE `type` = 6 AND `sandbox` = 0 AND json_extract(`data`, '$.bounce_type') = 'hard' GROUP BY 1, 2, 3;--> statement-breakpoint
INSERT INTO `counters` (`account_id`, `metric`, `hour`, `value`)
	SELECT `complaints`.`account_id`, 'stream:' || `stream_id` || ':complained', `complaints`.`created_at` / 3600000, count(*) FROM `complaints` JOIN `emails` ON `emails`.`id` = `email_id`
	WHERE `feedback_type` <> 'not-spam' GROUP BY 1, 2, 3;
