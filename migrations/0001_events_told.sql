CREATE TABLE `suppressions` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`address` text NOT NULL,
	`covers` integer NOT NULL,
	`stream_id` integer DEFAULT 0 NOT NULL,
	`list_id` integer DEFAULT 0 NOT NULL,
	`reason` text NOT NULL,
	`source_email_id` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `suppressions_address` ON `suppressions` (`account_id`,`address`,`covers`,`stream_id`,`list_id`);--> statement-breakpoint
CREATE INDEX `suppressions_account` ON `suppressions` (`account_id`);--> statement-breakpoint
CREATE INDEX `suppressions_reason` ON `suppressions` (`account_id`,`reason`);--> statement-breakpoint
CREATE TABLE `click_marks` (
	`recipient_id` integer NOT NULL,
	`url_hash` blob NOT NULL,
	`events` integer NOT NULL,
	`last_event_at` integer NOT NULL,
	PRIMARY KEY(`recipient_id`, `url_hash`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `link_clicks` (
	`email_id` integer NOT NULL,
	`url_hash` blob NOT NULL,
	`url` text NOT NULL,
	`human` integer DEFAULT 0 NOT NULL,
	`machine` integer DEFAULT 0 NOT NULL,
	`days` integer DEFAULT 0 NOT NULL,
	`last_day` integer,
	`last_clicked_at` integer,
	PRIMARY KEY(`email_id`, `url_hash`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `opens` (
	`recipient_id` integer PRIMARY KEY NOT NULL,
	`human` integer DEFAULT 0 NOT NULL,
	`machine` integer DEFAULT 0 NOT NULL,
	`events` integer DEFAULT 0 NOT NULL,
	`last_event_at` integer
) STRICT;
--> statement-breakpoint
CREATE TABLE `webhook_deliveries` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`webhook_id` integer NOT NULL,
	`seq` integer,
	`event` text NOT NULL,
	`payload` text,
	`status` integer NOT NULL,
	`attempts` integer NOT NULL,
	`next_at` integer,
	`attempted_at` integer,
	`duration_ms` integer,
	`status_code` integer,
	`response` text,
	`error` text,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `webhook_deliveries_uuid_unique` ON `webhook_deliveries` (`uuid`);--> statement-breakpoint
CREATE INDEX `webhook_deliveries_history` ON `webhook_deliveries` (`webhook_id`);--> statement-breakpoint
CREATE INDEX `webhook_deliveries_filter` ON `webhook_deliveries` (`webhook_id`,`event`,`status`);--> statement-breakpoint
CREATE INDEX `webhook_deliveries_seq` ON `webhook_deliveries` (`webhook_id`,`seq`) WHERE seq is not null;--> statement-breakpoint
CREATE INDEX `webhook_deliveries_due` ON `webhook_deliveries` (`webhook_id`,`next_at`) WHERE next_at is not null;--> statement-breakpoint
CREATE TABLE `webhooks` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`url` text NOT NULL,
	`events` text NOT NULL,
	`is_active` integer DEFAULT true NOT NULL,
	`off_by_failures` integer DEFAULT false NOT NULL,
	`secret` blob NOT NULL,
	`failure_count` integer DEFAULT 0 NOT NULL,
	`last_failure_at` integer,
	`last_failure_reason` text,
	`last_success_at` integer,
	`cursor_seq` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_uuid_unique` ON `webhooks` (`uuid`);--> statement-breakpoint
CREATE INDEX `webhooks_account` ON `webhooks` (`account_id`);--> statement-breakpoint
ALTER TABLE `accounts` ADD `tracking_privacy` integer DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE `domains` ADD `tracking_domain` text;--> statement-breakpoint
ALTER TABLE `domains` ADD `tracking_verified_at` integer;--> statement-breakpoint
CREATE UNIQUE INDEX `domains_tracking` ON `domains` (`tracking_domain`) WHERE tracking_domain is not null and deleted_at is null;--> statement-breakpoint
ALTER TABLE `emails` ADD `tracked` integer DEFAULT false NOT NULL;