CREATE TABLE `accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`plan` text NOT NULL,
	`monthly_quota` integer,
	`tracking_default` integer DEFAULT false NOT NULL,
	`paused_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_uuid_unique` ON `accounts` (`uuid`);--> statement-breakpoint
CREATE TABLE `usage` (
	`account_id` integer NOT NULL,
	`month` integer NOT NULL,
	`recipients` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `month`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`name` text NOT NULL,
	`hash` blob NOT NULL,
	`key_prefix` text NOT NULL,
	`scopes` text NOT NULL,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_uuid_unique` ON `api_keys` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_hash_unique` ON `api_keys` (`hash`);--> statement-breakpoint
CREATE TABLE `audit_logs` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer,
	`actor_type` text NOT NULL,
	`actor_id` text NOT NULL,
	`action` text NOT NULL,
	`resource_type` text,
	`resource_id` text,
	`ip_address` text,
	`metadata` text,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `audit_logs_account` ON `audit_logs` (`account_id`);--> statement-breakpoint
CREATE TABLE `dead_letters` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`email_id` integer NOT NULL,
	`recipient_id` integer NOT NULL,
	`reason` text NOT NULL,
	`last_error` text,
	`failed_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `dead_letters_account` ON `dead_letters` (`account_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `dead_letters_recipient` ON `dead_letters` (`recipient_id`);--> statement-breakpoint
CREATE TABLE `domains` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain` text NOT NULL,
	`dkim_selector` text NOT NULL,
	`dkim_public_key` text NOT NULL,
	`dkim_private_key` blob NOT NULL,
	`sending_subdomain` text NOT NULL,
	`spf_verified` integer DEFAULT false NOT NULL,
	`dkim_verified` integer DEFAULT false NOT NULL,
	`dmarc_verified` integer DEFAULT false NOT NULL,
	`return_path_verified` integer DEFAULT false NOT NULL,
	`mx_verified` integer DEFAULT false NOT NULL,
	`inbound_enabled` integer DEFAULT false NOT NULL,
	`mx_verified_at` integer,
	`verified_at` integer,
	`checked_at` integer,
	`next_check_at` integer NOT NULL,
	`failing` text,
	`deleted_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `domains_uuid_unique` ON `domains` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `domains_account_name` ON `domains` (`account_id`,`domain`) WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX `domains_name` ON `domains` (`domain`);--> statement-breakpoint
CREATE INDEX `domains_due` ON `domains` (`next_check_at`) WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX `domains_deleted` ON `domains` (`id`) WHERE deleted_at is not null;--> statement-breakpoint
CREATE TABLE `batch_replies` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`key_hash` blob NOT NULL,
	`body_hash` blob NOT NULL,
	`response` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `batch_replies_key` ON `batch_replies` (`account_id`,`key_hash`);--> statement-breakpoint
CREATE TABLE `emails` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`stream_id` integer NOT NULL,
	`operation_id` integer,
	`status` integer NOT NULL,
	`sandbox` integer NOT NULL,
	`transactional` integer NOT NULL,
	`tracking_override` integer,
	`from_address` text NOT NULL,
	`subject` text NOT NULL,
	`html_ref` integer,
	`text_ref` integer,
	`attachments` text,
	`extra` text,
	`recipient_count` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`quota_month` integer,
	`scheduled_at` integer,
	`delivered_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `emails_uuid_unique` ON `emails` (`uuid`);--> statement-breakpoint
CREATE INDEX `emails_by_time` ON `emails` (`account_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `emails_by_status` ON `emails` (`account_id`,`status`,`created_at`);--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`account_id` integer NOT NULL,
	`key_hash` blob NOT NULL,
	`email_id` integer NOT NULL,
	`body_hash` blob NOT NULL,
	PRIMARY KEY(`account_id`, `key_hash`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `recipients` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`email_id` integer NOT NULL,
	`kind` integer NOT NULL,
	`address` text NOT NULL,
	`mailbox` text,
	`status` integer NOT NULL,
	`lane` text,
	`next_at` integer,
	`attempts` integer DEFAULT 0 NOT NULL,
	`retry_from` integer,
	`delivery_started_at` integer,
	`delivered_at` integer,
	`smtp_response` text,
	`last_error` text,
	`sending_ip` text,
	`bounce_type` text,
	`bounce_category` text,
	FOREIGN KEY (`email_id`) REFERENCES `emails`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `recipients_email` ON `recipients` (`email_id`);--> statement-breakpoint
CREATE INDEX `recipients_due` ON `recipients` (`lane`,`next_at`) WHERE next_at is not null;--> statement-breakpoint
CREATE TABLE `counters` (
	`account_id` integer NOT NULL,
	`metric` text NOT NULL,
	`hour` integer NOT NULL,
	`value` integer NOT NULL,
	PRIMARY KEY(`account_id`, `metric`, `hour`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `event_sequences` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`last_seq` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `events` (
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`type` integer NOT NULL,
	`at` integer NOT NULL,
	`email_id` integer,
	`recipient_id` integer,
	`data` text,
	PRIMARY KEY(`account_id`, `seq`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `events_email` ON `events` (`email_id`) WHERE email_id is not null;--> statement-breakpoint
CREATE TABLE `meta` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `operations` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`operation_type` text NOT NULL,
	`status` text NOT NULL,
	`total_items` integer NOT NULL,
	`completed_items` integer NOT NULL,
	`failed_items` integer NOT NULL,
	`error_summary` text,
	`metadata` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`completed_at` integer,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `operations_uuid_unique` ON `operations` (`uuid`);--> statement-breakpoint
CREATE INDEX `operations_account` ON `operations` (`account_id`);--> statement-breakpoint
CREATE TABLE `streams` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`slug` text NOT NULL,
	`name` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `streams_uuid_unique` ON `streams` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `streams_slug` ON `streams` (`account_id`,`slug`) WHERE deleted_at is null;