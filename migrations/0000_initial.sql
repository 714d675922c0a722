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
	`errors` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contact_imports_operation_id_unique` ON `contact_imports` (`operation_id`);
--> statement-breakpoint
CREATE INDEX `contact_imports_list` ON `contact_imports` (`list_id`);
--> statement-breakpoint
CREATE TABLE `form_asks` (
	`id` integer PRIMARY KEY NOT NULL,
	`mailbox` blob,
	`shared_mailbox` blob,
	`contact` blob NOT NULL,
	`asked_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `form_asks_mailbox` ON `form_asks` (`mailbox`,`asked_at`) WHERE mailbox is not null;
--> statement-breakpoint
CREATE INDEX `form_asks_shared_mailbox` ON `form_asks` (`shared_mailbox`,`asked_at`) WHERE shared_mailbox is not null;
--> statement-breakpoint
CREATE INDEX `form_asks_contact` ON `form_asks` (`contact`,`asked_at`);
--> statement-breakpoint
CREATE INDEX `form_asks_age` ON `form_asks` (`asked_at`);
--> statement-breakpoint
CREATE TABLE `sequence_people` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`sequence_id` integer NOT NULL,
	`address_key` text NOT NULL,
	`email` text NOT NULL,
	`variables` text,
	`place` real NOT NULL,
	`since_at` integer NOT NULL,
	`sent` text NOT NULL,
	`reason` text,
	`created_at` integer NOT NULL,
	`ended_at` integer
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `sequence_people_entry` ON `sequence_people` (`sequence_id`,`address_key`);
--> statement-breakpoint
CREATE INDEX `sequence_people_page` ON `sequence_people` (`sequence_id`);
--> statement-breakpoint
CREATE INDEX `sequence_people_active` ON `sequence_people` (`sequence_id`) WHERE ended_at is null;
--> statement-breakpoint
CREATE INDEX `sequence_people_address` ON `sequence_people` (`account_id`,`address_key`);
--> statement-breakpoint
CREATE INDEX `sequence_people_ended` ON `sequence_people` (`ended_at`);
--> statement-breakpoint
CREATE TABLE `sequences` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`list_id` integer,
	`definition` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `sequences_uuid_unique` ON `sequences` (`uuid`);
--> statement-breakpoint
CREATE INDEX `sequences_account` ON `sequences` (`account_id`);
--> statement-breakpoint
CREATE INDEX `sequences_list` ON `sequences` (`list_id`);
--> statement-breakpoint
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
CREATE UNIQUE INDEX `signup_forms_uuid_unique` ON `signup_forms` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `signup_forms_list_id_unique` ON `signup_forms` (`list_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `signup_forms_slug_unique` ON `signup_forms` (`slug`);
--> statement-breakpoint
CREATE INDEX `signup_forms_account` ON `signup_forms` (`account_id`);
--> statement-breakpoint
CREATE TABLE `accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`name` text NOT NULL,
	`email` text NOT NULL,
	`plan` text NOT NULL,
	`monthly_quota` integer,
	`tracking_default` integer DEFAULT false NOT NULL,
	`tracking_privacy` integer DEFAULT false NOT NULL,
	`timezone` text DEFAULT 'UTC' NOT NULL,
	`paused_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`parent_id` integer,
	`disabled_at` integer,
	`deleted_at` integer,
	`pause_source` text,
	`pause_reason` text,
	`resumed_at` integer,
	`quota_held` integer DEFAULT false NOT NULL,
	`stripe_customer_id` text,
	`stripe_subscription_id` text,
	`subscription_status` text,
	`billing_email` text,
	`trial_ends_at` integer,
	`exported_at` integer,
	`events_read_at` integer
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_uuid_unique` ON `accounts` (`uuid`);
--> statement-breakpoint
CREATE INDEX `accounts_parent` ON `accounts` (`parent_id`) WHERE parent_id is not null;
--> statement-breakpoint
CREATE INDEX `accounts_deleted` ON `accounts` (`id`) WHERE deleted_at is not null;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_customer` ON `accounts` (`stripe_customer_id`) WHERE stripe_customer_id is not null;
--> statement-breakpoint
CREATE TABLE `stored_amounts` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`contacts` integer DEFAULT 0 NOT NULL,
	`bytes` integer DEFAULT 0 NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `usage` (
	`account_id` integer NOT NULL,
	`month` integer NOT NULL,
	`recipients` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `month`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `usage_of_sub_accounts` (
	`account_id` integer NOT NULL,
	`month` integer NOT NULL,
	`recipients` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `month`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `audit_chain` (
	`id` integer PRIMARY KEY NOT NULL,
	`anchor_id` integer NOT NULL,
	`anchor_hash` blob NOT NULL,
	`head_id` integer NOT NULL,
	`head_hash` blob NOT NULL
) STRICT;
--> statement-breakpoint
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
	`created_at` integer NOT NULL,
	`salt` blob,
	`digest` blob NOT NULL,
	`hash` blob NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `audit_logs_account` ON `audit_logs` (`account_id`);
--> statement-breakpoint
CREATE INDEX `audit_logs_action` ON `audit_logs` (`account_id`,`action`);
--> statement-breakpoint
CREATE INDEX `audit_logs_resource` ON `audit_logs` (`account_id`,`resource_id`) WHERE resource_id is not null;
--> statement-breakpoint
CREATE TABLE `content_garbage` (
	`store` integer NOT NULL,
	`ref` integer NOT NULL,
	`times` integer NOT NULL,
	PRIMARY KEY(`store`, `ref`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `counters` (
	`account_id` integer NOT NULL,
	`metric` text NOT NULL,
	`hour` integer NOT NULL,
	`value` integer NOT NULL,
	PRIMARY KEY(`account_id`, `metric`, `hour`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `daily_figures` (
	`account_id` integer NOT NULL,
	`day` integer NOT NULL,
	`domain` text NOT NULL,
	`sent` integer DEFAULT 0 NOT NULL,
	`delivered` integer DEFAULT 0 NOT NULL,
	`bounced` integer DEFAULT 0 NOT NULL,
	`opens` integer DEFAULT 0 NOT NULL,
	`clicks` integer DEFAULT 0 NOT NULL,
	`opened_emails` integer DEFAULT 0 NOT NULL,
	`clicked_emails` integer DEFAULT 0 NOT NULL,
	`complaints` integer DEFAULT 0 NOT NULL,
	`unsubscribes` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`account_id`, `day`, `domain`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `daily_figures_by_sent` ON `daily_figures` (`account_id`,`day`,`sent`) WHERE sent > 0 and domain <> '';
--> statement-breakpoint
CREATE TABLE `event_gaps` (
	`account_id` integer NOT NULL,
	`after_seq` integer NOT NULL,
	`until_seq` integer NOT NULL,
	PRIMARY KEY(`account_id`, `after_seq`)
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
CREATE INDEX `events_email` ON `events` (`email_id`) WHERE email_id is not null;
--> statement-breakpoint
CREATE TABLE `meta` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `notices` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`kind` text NOT NULL,
	`topic` integer NOT NULL,
	`data` text,
	`due_at` integer NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `notices_topic` ON `notices` (`topic`,`kind`);
--> statement-breakpoint
CREATE INDEX `notices_due` ON `notices` (`due_at`);
--> statement-breakpoint
CREATE INDEX `notices_account` ON `notices` (`account_id`,`kind`,`due_at`);
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
CREATE UNIQUE INDEX `operations_uuid_unique` ON `operations` (`uuid`);
--> statement-breakpoint
CREATE INDEX `operations_account` ON `operations` (`account_id`);
--> statement-breakpoint
CREATE TABLE `account_deletions` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`operation_id` integer,
	`step` integer NOT NULL,
	`cursor` integer NOT NULL,
	`rows` integer NOT NULL,
	`due_at` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `erasure_emails` (
	`erasure_id` integer NOT NULL,
	`email_id` integer NOT NULL,
	PRIMARY KEY(`erasure_id`, `email_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `erasures` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`operation_id` integer NOT NULL,
	`address` text NOT NULL,
	`step` integer NOT NULL,
	`cursor` integer NOT NULL,
	`rows` integer NOT NULL,
	`due_at` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `erasures_address` ON `erasures` (`account_id`,`address`);
--> statement-breakpoint
CREATE INDEX `erasures_due` ON `erasures` (`due_at`);
--> statement-breakpoint
CREATE TABLE `retention_left` (
	`kind` integer NOT NULL,
	`row_id` integer NOT NULL,
	PRIMARY KEY(`kind`, `row_id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `billing_events` (
	`id` text PRIMARY KEY NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `billing_events_age` ON `billing_events` (`created_at`);
--> statement-breakpoint
CREATE TABLE `identities` (
	`issuer` text NOT NULL,
	`subject` text NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`issuer`, `subject`),
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE INDEX `identities_user` ON `identities` (`user_id`);
--> statement-breakpoint
CREATE TABLE `invitations` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`email` text NOT NULL,
	`role` text NOT NULL,
	`token_hash` blob NOT NULL,
	`invited_by` text NOT NULL,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_uuid_unique` ON `invitations` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `invitations_token_hash_unique` ON `invitations` (`token_hash`);
--> statement-breakpoint
CREATE INDEX `invitations_account` ON `invitations` (`account_id`);
--> statement-breakpoint
CREATE TABLE `known_networks` (
	`user_id` integer NOT NULL,
	`network` text NOT NULL,
	`last_seen_at` integer NOT NULL,
	PRIMARY KEY(`user_id`, `network`),
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE INDEX `known_networks_last_seen` ON `known_networks` (`last_seen_at`);
--> statement-breakpoint
CREATE TABLE `members` (
	`account_id` integer NOT NULL,
	`user_id` integer NOT NULL,
	`role` text NOT NULL,
	`is_provided` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `user_id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `members_user` ON `members` (`user_id`);
--> statement-breakpoint
CREATE TABLE `oauth_grants` (
	`key_uuid` blob PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`user_id` integer NOT NULL,
	`generation` integer DEFAULT 0 NOT NULL,
	`issued_at` integer NOT NULL,
	FOREIGN KEY (`key_uuid`) REFERENCES `api_keys`(`uuid`) ON UPDATE no action ON DELETE cascade,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE INDEX `oauth_grants_user` ON `oauth_grants` (`user_id`);
--> statement-breakpoint
CREATE INDEX `oauth_grants_account` ON `oauth_grants` (`account_id`);
--> statement-breakpoint
CREATE TABLE `passkeys` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`user_id` integer NOT NULL,
	`name` text NOT NULL,
	`credential_id` blob NOT NULL,
	`public_key` blob NOT NULL,
	`counter` integer NOT NULL,
	`transports` text NOT NULL,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `passkeys_uuid_unique` ON `passkeys` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `passkeys_credential_id_unique` ON `passkeys` (`credential_id`);
--> statement-breakpoint
CREATE INDEX `passkeys_user` ON `passkeys` (`user_id`);
--> statement-breakpoint
CREATE TABLE `password_resets` (
	`id` integer PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`token_hash` blob NOT NULL,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `password_resets_token_hash_unique` ON `password_resets` (`token_hash`);
--> statement-breakpoint
CREATE INDEX `password_resets_user` ON `password_resets` (`user_id`);
--> statement-breakpoint
CREATE TABLE `sessions` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`user_id` integer NOT NULL,
	`account_id` integer NOT NULL,
	`token_hash` blob NOT NULL,
	`ip_address` text,
	`user_agent` text,
	`second_factor_at` integer,
	`last_seen_at` integer NOT NULL,
	`password_at` integer,
	`ends_at` integer,
	`expires_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_uuid_unique` ON `sessions` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `sessions_token_hash_unique` ON `sessions` (`token_hash`);
--> statement-breakpoint
CREATE INDEX `sessions_user` ON `sessions` (`user_id`);
--> statement-breakpoint
CREATE INDEX `sessions_account` ON `sessions` (`account_id`);
--> statement-breakpoint
CREATE INDEX `sessions_expiry` ON `sessions` (`expires_at`);
--> statement-breakpoint
CREATE TABLE `users` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`email` text NOT NULL,
	`name` text NOT NULL,
	`password_hash` text,
	`totp_secret` blob,
	`totp_enabled_at` integer,
	`totp_last_step` integer,
	`recovery_codes` text,
	`password_until` integer,
	`operator_at` integer,
	`last_login_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `users_uuid_unique` ON `users` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `users_email_unique` ON `users` (`email`);
--> statement-breakpoint
CREATE TABLE `agent_mailboxes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`local_part` text NOT NULL,
	`domain` text NOT NULL,
	`display_name` text,
	`message_count` integer DEFAULT 0 NOT NULL,
	`unread_count` integer DEFAULT 0 NOT NULL,
	`unread_bytes` integer DEFAULT 0 NOT NULL,
	`thread_count` integer DEFAULT 0 NOT NULL,
	`auto_responder` text,
	`drafts` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `agent_mailboxes_uuid_unique` ON `agent_mailboxes` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `agent_mailboxes_address` ON `agent_mailboxes` (`domain_id`,`local_part`) WHERE deleted_at is null;
--> statement-breakpoint
CREATE INDEX `agent_mailboxes_account` ON `agent_mailboxes` (`account_id`);
--> statement-breakpoint
CREATE INDEX `agent_mailboxes_unread` ON `agent_mailboxes` (`account_id`,`deleted_at`,`unread_count`,`unread_bytes`) WHERE deleted_at is null and unread_count > 0;
--> statement-breakpoint
CREATE INDEX `agent_mailboxes_deleted` ON `agent_mailboxes` (`id`) WHERE deleted_at is not null;
--> statement-breakpoint
CREATE TABLE `mailbox_auto_replies` (
	`mailbox_id` integer NOT NULL,
	`address` text NOT NULL,
	`replied_at` integer NOT NULL,
	PRIMARY KEY(`mailbox_id`, `address`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `mailbox_auto_replies_address` ON `mailbox_auto_replies` (`address`,`replied_at`);
--> statement-breakpoint
CREATE TABLE `mailbox_contacts` (
	`mailbox_id` integer NOT NULL,
	`address` text NOT NULL,
	`name` text,
	`message_count` integer NOT NULL,
	`last_message_at` integer NOT NULL,
	PRIMARY KEY(`mailbox_id`, `address`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `mailbox_contacts_time` ON `mailbox_contacts` (`mailbox_id`,`last_message_at`);
--> statement-breakpoint
CREATE TABLE `mailbox_messages` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`mailbox_id` integer NOT NULL,
	`thread_id` integer NOT NULL,
	`email_id` integer,
	`message_id` text,
	`in_reply_to` text,
	`references_header` text,
	`mail_from` text NOT NULL,
	`from_header` text NOT NULL,
	`from_address` text NOT NULL,
	`to_header` text,
	`cc_header` text,
	`reply_to` text,
	`subject` text NOT NULL,
	`text_ref` integer,
	`stripped_ref` integer,
	`html_ref` integer,
	`attachments` text NOT NULL,
	`raw_ref` integer,
	`size_bytes` integer NOT NULL,
	`source_ip` text,
	`helo` text,
	`tls` text,
	`authentication` text,
	`spam` text,
	`classification` text,
	`parse_error` text,
	`labels` text NOT NULL,
	`read_at` integer,
	`lease_token` blob,
	`lease_expires_at` integer,
	`acked_at` integer,
	`received_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `mailbox_messages_uuid_unique` ON `mailbox_messages` (`uuid`);
--> statement-breakpoint
CREATE INDEX `mailbox_messages_mailbox` ON `mailbox_messages` (`mailbox_id`,`email_id`,`created_at`) WHERE email_id is null;
--> statement-breakpoint
CREATE INDEX `mailbox_messages_unread` ON `mailbox_messages` (`mailbox_id`,`email_id`,`read_at`,`created_at`) WHERE email_id is null and read_at is null;
--> statement-breakpoint
CREATE INDEX `mailbox_messages_read` ON `mailbox_messages` (`mailbox_id`,`email_id`,`created_at`,`read_at`) WHERE email_id is null and read_at is not null;
--> statement-breakpoint
CREATE INDEX `mailbox_messages_next` ON `mailbox_messages` (`mailbox_id`,`lease_expires_at`) WHERE email_id is null and acked_at is null;
--> statement-breakpoint
CREATE INDEX `mailbox_messages_unparsed` ON `mailbox_messages` (`id`) WHERE parse_error is not null;
--> statement-breakpoint
CREATE INDEX `mailbox_messages_thread` ON `mailbox_messages` (`thread_id`);
--> statement-breakpoint
CREATE INDEX `mailbox_messages_message_id` ON `mailbox_messages` (`mailbox_id`,`message_id`);
--> statement-breakpoint
CREATE TABLE `mailbox_threads` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`mailbox_id` integer NOT NULL,
	`subject` text NOT NULL,
	`message_count` integer DEFAULT 0 NOT NULL,
	`last_message_at` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `mailbox_threads_uuid_unique` ON `mailbox_threads` (`uuid`);
--> statement-breakpoint
CREATE INDEX `mailbox_threads_mailbox` ON `mailbox_threads` (`mailbox_id`,`last_message_at`);
--> statement-breakpoint
CREATE TABLE `complaints` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`email_id` integer NOT NULL,
	`recipient_id` integer,
	`feedback_type` text NOT NULL,
	`feedback_loop` text,
	`reporter` text,
	`raw_ref` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `complaints_recipient` ON `complaints` (`recipient_id`) WHERE recipient_id is not null and feedback_type <> 'not-spam';
--> statement-breakpoint
CREATE INDEX `complaints_email` ON `complaints` (`email_id`);
--> statement-breakpoint
CREATE INDEX `complaints_account` ON `complaints` (`account_id`,`created_at`);
--> statement-breakpoint
CREATE TABLE `received_reports` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`kind` text NOT NULL,
	`account_id` integer,
	`domain` text NOT NULL,
	`covered_by` text NOT NULL,
	`organisation` text NOT NULL,
	`reporter` text,
	`report_id` text NOT NULL,
	`begin_at` integer,
	`end_at` integer,
	`content_ref` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`created_at` integer NOT NULL,
	`counted` integer,
	`uncounted` text,
	`is_imported` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `received_reports_uuid_unique` ON `received_reports` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `received_reports_id` ON `received_reports` (`kind`,`organisation`,`report_id`,`domain`);
--> statement-breakpoint
CREATE INDEX `received_reports_domain` ON `received_reports` (`domain`,`created_at`);
--> statement-breakpoint
CREATE INDEX `received_reports_account` ON `received_reports` (`account_id`);
--> statement-breakpoint
CREATE INDEX `received_reports_covered` ON `received_reports` (`covered_by`,`created_at`);
--> statement-breakpoint
CREATE TABLE `report_alerts` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`cause` text NOT NULL,
	`text` text NOT NULL,
	`last_seen_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `report_alerts_cause` ON `report_alerts` (`account_id`,`domain_id`,`cause`);
--> statement-breakpoint
CREATE INDEX `report_alerts_seen` ON `report_alerts` (`last_seen_at`);
--> statement-breakpoint
CREATE TABLE `report_rows` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`report_id` integer NOT NULL,
	`account_id` integer NOT NULL,
	`domain` text NOT NULL,
	`day` integer NOT NULL,
	`reporter` text NOT NULL,
	`is_proven` integer NOT NULL,
	`class` text NOT NULL,
	`cause` text NOT NULL,
	`source` text NOT NULL,
	`sender` text NOT NULL,
	`disposition` text NOT NULL,
	`is_from_us` integer NOT NULL,
	`dkim` integer NOT NULL,
	`spf` integer NOT NULL,
	`count` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `report_rows_domain` ON `report_rows` (`account_id`,`domain`,`day`);
--> statement-breakpoint
CREATE TABLE `inbound_emails` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`domain_uuid` blob NOT NULL,
	`domain` text NOT NULL,
	`route_id` integer,
	`status` integer NOT NULL,
	`mail_from` text NOT NULL,
	`rcpt_to` text NOT NULL,
	`source_ip` text NOT NULL,
	`helo` text NOT NULL,
	`tls` text,
	`from_address` text,
	`to_addresses` text NOT NULL,
	`from_header` text,
	`to_header` text,
	`cc_header` text,
	`subject` text NOT NULL,
	`message_id` text,
	`headers_ref` integer,
	`text_ref` integer,
	`html_ref` integer,
	`attachments` text NOT NULL,
	`raw_ref` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`spf_result` text,
	`authentication` text,
	`spam` text,
	`forward` text,
	`error_message` text,
	`event_seq` integer,
	`webhook_delivered_at` integer,
	`received_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `inbound_emails_uuid_unique` ON `inbound_emails` (`uuid`);
--> statement-breakpoint
CREATE INDEX `inbound_emails_account` ON `inbound_emails` (`account_id`);
--> statement-breakpoint
CREATE INDEX `inbound_emails_status` ON `inbound_emails` (`account_id`,`status`);
--> statement-breakpoint
CREATE INDEX `inbound_emails_domain` ON `inbound_emails` (`account_id`,`domain_uuid`,`status`);
--> statement-breakpoint
CREATE INDEX `inbound_emails_from` ON `inbound_emails` (`account_id`,lower("from_address"));
--> statement-breakpoint
CREATE INDEX `inbound_emails_spam` ON `inbound_emails` (`account_id`,"spam" ->> '$.verdict') WHERE spam is not null;
--> statement-breakpoint
CREATE INDEX `inbound_emails_refused` ON `inbound_emails` (`account_id`) WHERE forward ->> '$.refused' <> '{}';
--> statement-breakpoint
CREATE INDEX `inbound_emails_route_status` ON `inbound_emails` (`route_id`,`status`) WHERE route_id is not null;
--> statement-breakpoint
CREATE INDEX `inbound_emails_route` ON `inbound_emails` (`route_id`,`event_seq`) WHERE route_id is not null;
--> statement-breakpoint
CREATE INDEX `inbound_emails_unrouted` ON `inbound_emails` (`domain_id`,`size_bytes`) WHERE route_id is null;
--> statement-breakpoint
CREATE TABLE `inbound_receipts` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`mail_from` text NOT NULL,
	`destinations` text NOT NULL,
	`source_ip` text NOT NULL,
	`helo` text NOT NULL,
	`tls` text,
	`raw_ref` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`received_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `operator_mail` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`kind` text NOT NULL,
	`mail_from` text NOT NULL,
	`rcpt_to` text NOT NULL,
	`from_header` text,
	`subject` text NOT NULL,
	`reason` text NOT NULL,
	`source_ip` text NOT NULL,
	`network` text NOT NULL,
	`raw_ref` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `operator_mail_uuid_unique` ON `operator_mail` (`uuid`);
--> statement-breakpoint
CREATE INDEX `operator_mail_time` ON `operator_mail` (`created_at`);
--> statement-breakpoint
CREATE INDEX `operator_mail_kind` ON `operator_mail` (`kind`);
--> statement-breakpoint
CREATE INDEX `operator_mail_network` ON `operator_mail` (`network`,`created_at`);
--> statement-breakpoint
CREATE TABLE `inbound_routes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`pattern` text NOT NULL,
	`given_pattern` text NOT NULL,
	`match_type` integer NOT NULL,
	`priority` integer NOT NULL,
	`webhook_url` text,
	`forward_to` text,
	`is_active` integer DEFAULT true NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `inbound_routes_uuid_unique` ON `inbound_routes` (`uuid`);
--> statement-breakpoint
CREATE INDEX `inbound_routes_account` ON `inbound_routes` (`account_id`);
--> statement-breakpoint
CREATE INDEX `inbound_routes_domain` ON `inbound_routes` (`domain_id`,`match_type`,`pattern`);
--> statement-breakpoint
CREATE TABLE `abuse_findings` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`source` text NOT NULL,
	`reason` text NOT NULL,
	`detail` text,
	`email_id` integer,
	`paused` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `abuse_findings_account` ON `abuse_findings` (`account_id`,`created_at`);
--> statement-breakpoint
CREATE INDEX `abuse_findings_age` ON `abuse_findings` (`created_at`);
--> statement-breakpoint
CREATE TABLE `content_cursor` (
	`id` integer PRIMARY KEY NOT NULL,
	`email_id` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `content_watch` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`emails` integer DEFAULT 0 NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `resumed_figures` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`hour` integer NOT NULL,
	`delivered` integer NOT NULL,
	`bounced` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `insights` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`generated_at` integer NOT NULL,
	`period_start` integer NOT NULL,
	`period_end` integer NOT NULL,
	`model` text NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`summary` text NOT NULL,
	`findings` text NOT NULL,
	`raw_markdown` text NOT NULL,
	`acknowledged_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `insights_uuid_unique` ON `insights` (`uuid`);
--> statement-breakpoint
CREATE INDEX `insights_account` ON `insights` (`account_id`,`generated_at`);
--> statement-breakpoint
CREATE TABLE `request_log_totals` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`rows` integer NOT NULL,
	`bytes` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE TABLE `request_logs` (
	`account_id` integer NOT NULL,
	`id` integer NOT NULL,
	`kind` integer NOT NULL,
	`method` text NOT NULL,
	`path` text,
	`status` integer NOT NULL,
	`error_code` text,
	`error_message` text,
	`duration_ms` integer NOT NULL,
	`actor_id` text NOT NULL,
	`ip_address` text,
	`user_agent` text,
	`request_id` text,
	`email_id` text,
	`body` text,
	`size` integer NOT NULL,
	PRIMARY KEY(`account_id`, `id`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `postmaster_data` (
	`domain_id` integer PRIMARY KEY NOT NULL,
	`asked_at` integer NOT NULL,
	`data` text
) STRICT;
--> statement-breakpoint
CREATE INDEX `postmaster_data_asked` ON `postmaster_data` (`asked_at`);
--> statement-breakpoint
CREATE TABLE `batch_replies` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`key_hash` blob NOT NULL,
	`body_hash` blob NOT NULL,
	`response` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `batch_replies_key` ON `batch_replies` (`account_id`,`key_hash`);
--> statement-breakpoint
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
CREATE UNIQUE INDEX `broadcasts_operation_id_unique` ON `broadcasts` (`operation_id`);
--> statement-breakpoint
CREATE INDEX `broadcasts_account` ON `broadcasts` (`account_id`);
--> statement-breakpoint
CREATE INDEX `broadcasts_open` ON `broadcasts` (`state`,`due_at`) WHERE state <= 5;
--> statement-breakpoint
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
CREATE INDEX `dead_letters_account` ON `dead_letters` (`account_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `dead_letters_recipient` ON `dead_letters` (`recipient_id`);
--> statement-breakpoint
CREATE TABLE `held_accounts` (
	`account_id` integer PRIMARY KEY NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `provider_outcomes` (
	`day` integer NOT NULL,
	`source` text NOT NULL,
	`provider` text NOT NULL,
	`outcome` text NOT NULL,
	`is_blocked` integer NOT NULL,
	`reply` text NOT NULL,
	`count` integer NOT NULL,
	PRIMARY KEY(`day`, `source`, `provider`, `outcome`, `is_blocked`, `reply`)
) STRICT;
--> statement-breakpoint
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
CREATE TABLE `warm_ups` (
	`provider` text NOT NULL,
	`source` text NOT NULL,
	`day` integer NOT NULL,
	`budget` integer,
	`is_blocked` integer NOT NULL,
	PRIMARY KEY(`provider`, `source`)
) STRICT;
--> statement-breakpoint
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
	`stream` text,
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
CREATE UNIQUE INDEX `newsletters_uuid_unique` ON `newsletters` (`uuid`);
--> statement-breakpoint
CREATE INDEX `newsletters_account` ON `newsletters` (`account_id`);
--> statement-breakpoint
CREATE INDEX `newsletters_status` ON `newsletters` (`account_id`,`status`);
--> statement-breakpoint
CREATE INDEX `newsletters_operation` ON `newsletters` (`operation_id`);
--> statement-breakpoint
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
CREATE INDEX `attempts_recipient` ON `attempts` (`email_id`,`recipient_id`);
--> statement-breakpoint
CREATE TABLE `emails` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain_id` integer NOT NULL,
	`stream_id` integer NOT NULL,
	`operation_id` integer,
	`template_id` integer,
	`broadcast_id` integer,
	`list_id` integer,
	`status` integer NOT NULL,
	`sandbox` integer NOT NULL,
	`transactional` integer NOT NULL,
	`tracking_override` integer,
	`tracked` integer DEFAULT false NOT NULL,
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
	`engagement` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `emails_uuid_unique` ON `emails` (`uuid`);
--> statement-breakpoint
CREATE INDEX `emails_by_time` ON `emails` (`account_id`,`created_at`);
--> statement-breakpoint
CREATE INDEX `emails_by_status` ON `emails` (`account_id`,`status`,`created_at`);
--> statement-breakpoint
CREATE INDEX `emails_of_operation` ON `emails` (`operation_id`,`status`) WHERE operation_id is not null;
--> statement-breakpoint
CREATE INDEX `emails_opened` ON `emails` (`account_id`,`created_at`) WHERE engagement & 1 <> 0;
--> statement-breakpoint
CREATE INDEX `emails_clicked` ON `emails` (`account_id`,`created_at`) WHERE engagement & 2 <> 0;
--> statement-breakpoint
CREATE INDEX `emails_complained` ON `emails` (`account_id`,`created_at`) WHERE engagement & 4 <> 0;
--> statement-breakpoint
CREATE INDEX `emails_drafts` ON `emails` (`created_at`) WHERE status = 9;
--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`account_id` integer NOT NULL,
	`key_hash` blob NOT NULL,
	`email_id` integer NOT NULL,
	`body_hash` blob NOT NULL,
	PRIMARY KEY(`account_id`, `key_hash`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `queue_rules` (
	`id` integer PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`account_id` integer,
	`domain` text,
	`provider` text,
	`email_id` integer,
	`target` text,
	`reason` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `queue_rules_domain` ON `queue_rules` (`domain`);
--> statement-breakpoint
CREATE INDEX `queue_rules_account` ON `queue_rules` (`account_id`);
--> statement-breakpoint
CREATE INDEX `queue_rules_email` ON `queue_rules` (`email_id`);
--> statement-breakpoint
CREATE INDEX `queue_rules_provider` ON `queue_rules` (`provider`);
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
	`is_captured` integer DEFAULT false NOT NULL,
	`smtp_response` text,
	`last_error` text,
	`wait_noted_at` integer,
	`sending_ip` text,
	`bounce_type` text,
	`bounce_category` text,
	`expires_at` integer,
	FOREIGN KEY (`email_id`) REFERENCES `emails`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `recipients_email` ON `recipients` (`email_id`);
--> statement-breakpoint
CREATE INDEX `recipients_due` ON `recipients` (`lane`,`next_at`) WHERE next_at is not null;
--> statement-breakpoint
CREATE INDEX `recipients_expiring` ON `recipients` (`expires_at`) WHERE expires_at is not null and next_at is not null;
--> statement-breakpoint
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
CREATE TABLE `mta_sts_policies` (
	`domain` text PRIMARY KEY NOT NULL,
	`policy_id` text NOT NULL,
	`policy` text NOT NULL,
	`fetched_at` integer NOT NULL,
	`expires_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `mta_sts_policies_expiry` ON `mta_sts_policies` (`expires_at`);
--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`name` text NOT NULL,
	`hash` blob NOT NULL,
	`key_prefix` text NOT NULL,
	`scopes` text NOT NULL,
	`expires_at` integer,
	`limits` text,
	`last_used_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_uuid_unique` ON `api_keys` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_hash_unique` ON `api_keys` (`hash`);
--> statement-breakpoint
CREATE INDEX `api_keys_account` ON `api_keys` (`account_id`);
--> statement-breakpoint
CREATE TABLE `revoked_api_keys` (
	`hash` blob PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`name` text NOT NULL,
	`revoked_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `revoked_api_keys_uuid` ON `revoked_api_keys` (`uuid`);
--> statement-breakpoint
CREATE INDEX `revoked_api_keys_account` ON `revoked_api_keys` (`account_id`);
--> statement-breakpoint
CREATE INDEX `revoked_api_keys_revoked_at` ON `revoked_api_keys` (`revoked_at`);
--> statement-breakpoint
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
CREATE UNIQUE INDEX `contact_lists_uuid_unique` ON `contact_lists` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `contact_lists_name` ON `contact_lists` (`account_id`,`name`) WHERE deleted_at is null;
--> statement-breakpoint
CREATE INDEX `contact_lists_account` ON `contact_lists` (`account_id`);
--> statement-breakpoint
CREATE INDEX `contact_lists_deleted` ON `contact_lists` (`id`) WHERE deleted_at is not null and emptied_at is null;
--> statement-breakpoint
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
	`earlier_requests` text,
	`confirmed_at` integer,
	`opted_in_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `contacts_address` ON `contacts` (`account_id`,`address_key`,`list_id`);
--> statement-breakpoint
CREATE INDEX `contacts_list` ON `contacts` (`list_id`);
--> statement-breakpoint
CREATE INDEX `contacts_status` ON `contacts` (`list_id`,`status`);
--> statement-breakpoint
CREATE INDEX `contacts_search` ON `contacts` (`list_id`,`status`,`address_key`);
--> statement-breakpoint
CREATE TABLE `dns_credentials` (
	`domain_id` integer PRIMARY KEY NOT NULL,
	`provider` text NOT NULL,
	`zone` text NOT NULL,
	`fields` blob,
	`allows_private` integer NOT NULL,
	`kept_at` integer,
	`published_at` integer,
	`error` text,
	`records_hash` text NOT NULL,
	`next_attempt_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `dkim_keys` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`domain_id` integer NOT NULL,
	`selector` text NOT NULL,
	`dkim_public_key` text NOT NULL,
	`dkim_private_key` blob,
	`ed25519_public_key` text,
	`ed25519_private_key` blob,
	`created_at` integer NOT NULL,
	`retired_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `dkim_keys_domain` ON `dkim_keys` (`domain_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `dkim_keys_next` ON `dkim_keys` (`domain_id`) WHERE retired_at is null;
--> statement-breakpoint
CREATE TABLE `domains` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`domain` text NOT NULL,
	`dkim_selector` text NOT NULL,
	`dkim_public_key` text NOT NULL,
	`dkim_private_key` blob NOT NULL,
	`ed25519_public_key` text,
	`ed25519_private_key` blob,
	`ed25519_verified` integer DEFAULT false NOT NULL,
	`sending_subdomain` text NOT NULL,
	`spf_verified` integer DEFAULT false NOT NULL,
	`dkim_verified` integer DEFAULT false NOT NULL,
	`dmarc_verified` integer DEFAULT false NOT NULL,
	`return_path_verified` integer DEFAULT false NOT NULL,
	`mx_verified` integer DEFAULT false NOT NULL,
	`inbound_enabled` integer DEFAULT false NOT NULL,
	`mx_verified_at` integer,
	`tracking_domain` text,
	`tracking_verified_at` integer,
	`verified_at` integer,
	`records_lost_at` integer,
	`loss_notice_sent_at` integer,
	`loss_notice` text,
	`checked_at` integer,
	`next_check_at` integer NOT NULL,
	`failing` text,
	`deleted_at` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`dkim_since` integer,
	`dmarc_policy` text,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `domains_uuid_unique` ON `domains` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `domains_account_name` ON `domains` (`account_id`,`domain`) WHERE deleted_at is null;
--> statement-breakpoint
CREATE UNIQUE INDEX `domains_tracking` ON `domains` (`tracking_domain`) WHERE tracking_domain is not null and deleted_at is null;
--> statement-breakpoint
CREATE INDEX `domains_account` ON `domains` (`account_id`);
--> statement-breakpoint
CREATE INDEX `domains_name` ON `domains` (`domain`);
--> statement-breakpoint
CREATE INDEX `domains_due` ON `domains` (`next_check_at`) WHERE deleted_at is null;
--> statement-breakpoint
CREATE INDEX `domains_deleted` ON `domains` (`id`) WHERE deleted_at is not null;
--> statement-breakpoint
CREATE TABLE `streams` (
	`id` integer PRIMARY KEY NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`slug` text NOT NULL,
	`name` text NOT NULL,
	`expires_in` integer,
	`priority` integer DEFAULT 0 NOT NULL,
	`pool` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `streams_uuid_unique` ON `streams` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `streams_slug` ON `streams` (`account_id`,`slug`) WHERE deleted_at is null;
--> statement-breakpoint
CREATE INDEX `streams_account` ON `streams` (`account_id`);
--> statement-breakpoint
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
CREATE UNIQUE INDEX `suppressions_address` ON `suppressions` (`account_id`,`address`,`covers`,`stream_id`,`list_id`);
--> statement-breakpoint
CREATE INDEX `suppressions_account` ON `suppressions` (`account_id`);
--> statement-breakpoint
CREATE INDEX `suppressions_reason` ON `suppressions` (`account_id`,`reason`);
--> statement-breakpoint
CREATE TABLE `template_versions` (
	`template_id` integer NOT NULL,
	`version` integer NOT NULL,
	`subject` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`actor_type` text NOT NULL,
	`actor_id` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`template_id`, `version`),
	FOREIGN KEY (`template_id`) REFERENCES `templates`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE TABLE `templates` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`alias` text NOT NULL,
	`locale` text,
	`name` text NOT NULL,
	`subject` text NOT NULL,
	`html_body` text,
	`text_body` text,
	`test_data` text,
	`foreign_id` integer,
	`version` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `templates_uuid_unique` ON `templates` (`uuid`);
--> statement-breakpoint
CREATE UNIQUE INDEX `templates_alias` ON `templates` (`account_id`,`alias`,CASE WHEN locale IS NULL THEN '' ELSE locale END) WHERE deleted_at is null;
--> statement-breakpoint
CREATE UNIQUE INDEX `templates_foreign` ON `templates` (`account_id`,`foreign_id`) WHERE foreign_id is not null and deleted_at is null;
--> statement-breakpoint
CREATE INDEX `templates_account` ON `templates` (`account_id`);
--> statement-breakpoint
CREATE TABLE `wordings` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`name` text,
	`texts` text NOT NULL,
	`logo_hash` text,
	`logo_type` text,
	`logo_width` integer,
	`logo_height` integer,
	`logo` blob,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `wordings_logo` ON `wordings` (`logo_hash`) WHERE logo_hash is not null;
--> statement-breakpoint
CREATE TABLE `inbound_secrets` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`secret` blob NOT NULL,
	`previous_secret` blob,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
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
CREATE UNIQUE INDEX `webhook_deliveries_uuid_unique` ON `webhook_deliveries` (`uuid`);
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_history` ON `webhook_deliveries` (`webhook_id`);
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_filter` ON `webhook_deliveries` (`webhook_id`,`event`,`status`);
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_seq` ON `webhook_deliveries` (`webhook_id`,`seq`) WHERE seq is not null;
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_due` ON `webhook_deliveries` (`webhook_id`,`next_at`) WHERE next_at is not null;
--> statement-breakpoint
CREATE TABLE `webhooks` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`account_id` integer NOT NULL,
	`url` text NOT NULL,
	`description` text,
	`events` text NOT NULL,
	`is_active` integer DEFAULT true NOT NULL,
	`off_by_failures` integer DEFAULT false NOT NULL,
	`notice_sent_at` integer,
	`secret` blob NOT NULL,
	`secret_rotated_at` integer,
	`previous_secret` blob,
	`format` integer DEFAULT 0 NOT NULL,
	`failure_count` integer DEFAULT 0 NOT NULL,
	`failing_since` integer,
	`last_failure_at` integer,
	`last_failure_reason` text,
	`last_success_at` integer,
	`cursor_seq` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	`route_id` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_uuid_unique` ON `webhooks` (`uuid`);
--> statement-breakpoint
CREATE INDEX `webhooks_account` ON `webhooks` (`account_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_route` ON `webhooks` (`route_id`) WHERE route_id is not null and deleted_at is null;
--> statement-breakpoint
CREATE VIRTUAL TABLE `mailbox_search` USING fts5(mailbox, subject, sender, body, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
--> statement-breakpoint
INSERT INTO audit_chain VALUES (1, 0, zeroblob(32), 0, zeroblob(32));
--> statement-breakpoint
CREATE TRIGGER `contacts_stored` AFTER INSERT ON `contacts` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 1, 200 + coalesce(octet_length(new.email), 0) + coalesce(octet_length(new.metadata), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `contacts_removed` AFTER DELETE ON `contacts` BEGIN
	UPDATE `stored_amounts` SET `contacts` = `contacts` - 1, `bytes` = `bytes` - (200 + coalesce(octet_length(old.email), 0) + coalesce(octet_length(old.metadata), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `contacts_resized` AFTER UPDATE OF email, metadata ON `contacts` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.email), 0) + coalesce(octet_length(old.metadata), 0)) + (200 + coalesce(octet_length(new.email), 0) + coalesce(octet_length(new.metadata), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `templates_stored` AFTER INSERT ON `templates` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `templates_removed` AFTER DELETE ON `templates` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `templates_resized` AFTER UPDATE OF subject, html_body, text_body ON `templates` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0)) + (coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `newsletters_stored` AFTER INSERT ON `newsletters` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0) + coalesce(octet_length(new.template_data), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `newsletters_removed` AFTER DELETE ON `newsletters` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0) + coalesce(octet_length(old.template_data), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `newsletters_resized` AFTER UPDATE OF subject, html_body, text_body, template_data ON `newsletters` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (coalesce(octet_length(old.subject), 0) + coalesce(octet_length(old.html_body), 0) + coalesce(octet_length(old.text_body), 0) + coalesce(octet_length(old.template_data), 0)) + (coalesce(octet_length(new.subject), 0) + coalesce(octet_length(new.html_body), 0) + coalesce(octet_length(new.text_body), 0) + coalesce(octet_length(new.template_data), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `suppressions_stored` AFTER INSERT ON `suppressions` BEGIN
	INSERT INTO `stored_amounts` (`account_id`, `contacts`, `bytes`) VALUES (new.account_id, 0, 200 + coalesce(octet_length(new.reason), 0))
	ON CONFLICT (`account_id`) DO UPDATE SET `contacts` = `contacts` + excluded.`contacts`, `bytes` = `bytes` + excluded.`bytes`;
END;
--> statement-breakpoint
CREATE TRIGGER `suppressions_removed` AFTER DELETE ON `suppressions` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.reason), 0)) WHERE `account_id` = old.account_id;
END;
--> statement-breakpoint
CREATE TRIGGER `suppressions_resized` AFTER UPDATE OF reason ON `suppressions` BEGIN
	UPDATE `stored_amounts` SET `bytes` = `bytes` - (200 + coalesce(octet_length(old.reason), 0)) + (200 + coalesce(octet_length(new.reason), 0)) WHERE `account_id` = new.account_id;
END;
--> statement-breakpoint
INSERT INTO content_cursor VALUES (1, 0);
--> statement-breakpoint
CREATE VIRTUAL TABLE `email_search` USING fts5(recipient, sender, name, subject, tag, stream, content='', contentless_delete=1, detail=column, tokenize='ascii');
