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
	`thread_count` integer DEFAULT 0 NOT NULL,
	`auto_responder` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `agent_mailboxes_uuid_unique` ON `agent_mailboxes` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `agent_mailboxes_address` ON `agent_mailboxes` (`domain_id`,`local_part`) WHERE deleted_at is null;--> statement-breakpoint
CREATE INDEX `agent_mailboxes_account` ON `agent_mailboxes` (`account_id`);--> statement-breakpoint
CREATE INDEX `agent_mailboxes_deleted` ON `agent_mailboxes` (`id`) WHERE deleted_at is not null;--> statement-breakpoint
CREATE TABLE `mailbox_auto_replies` (
	`mailbox_id` integer NOT NULL,
	`address` text NOT NULL,
	`replied_at` integer NOT NULL,
	PRIMARY KEY(`mailbox_id`, `address`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `mailbox_auto_replies_address` ON `mailbox_auto_replies` (`address`,`replied_at`);--> statement-breakpoint
CREATE TABLE `mailbox_contacts` (
	`mailbox_id` integer NOT NULL,
	`address` text NOT NULL,
	`name` text,
	`message_count` integer NOT NULL,
	`last_message_at` integer NOT NULL,
	PRIMARY KEY(`mailbox_id`, `address`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `mailbox_contacts_time` ON `mailbox_contacts` (`mailbox_id`,`last_message_at`);--> statement-breakpoint
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
	`classification` text,
	`labels` text NOT NULL,
	`read_at` integer,
	`lease_token` blob,
	`lease_expires_at` integer,
	`acked_at` integer,
	`received_at` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `mailbox_messages_uuid_unique` ON `mailbox_messages` (`uuid`);--> statement-breakpoint
CREATE INDEX `mailbox_messages_mailbox` ON `mailbox_messages` (`mailbox_id`,`email_id`,`created_at`) WHERE email_id is null;--> statement-breakpoint
CREATE INDEX `mailbox_messages_unread` ON `mailbox_messages` (`mailbox_id`,`email_id`,`read_at`,`created_at`) WHERE email_id is null and read_at is null;--> statement-breakpoint
CREATE INDEX `mailbox_messages_read` ON `mailbox_messages` (`mailbox_id`,`email_id`,`created_at`,`read_at`) WHERE email_id is null and read_at is not null;--> statement-breakpoint
CREATE INDEX `mailbox_messages_next` ON `mailbox_messages` (`mailbox_id`,`lease_expires_at`) WHERE email_id is null and acked_at is null;--> statement-breakpoint
CREATE INDEX `mailbox_messages_thread` ON `mailbox_messages` (`thread_id`);--> statement-breakpoint
CREATE INDEX `mailbox_messages_message_id` ON `mailbox_messages` (`mailbox_id`,`message_id`);--> statement-breakpoint
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
CREATE UNIQUE INDEX `mailbox_threads_uuid_unique` ON `mailbox_threads` (`uuid`);--> statement-breakpoint
CREATE INDEX `mailbox_threads_mailbox` ON `mailbox_threads` (`mailbox_id`,`last_message_at`);--> statement-breakpoint
CREATE TABLE `complaints` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`account_id` integer NOT NULL,
	`email_id` integer NOT NULL,
	`recipient_id` integer,
	`feedback_type` text NOT NULL,
	`reporter` text,
	`raw_ref` integer,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `complaints_recipient` ON `complaints` (`recipient_id`) WHERE recipient_id is not null and feedback_type <> 'not-spam';--> statement-breakpoint
CREATE INDEX `complaints_email` ON `complaints` (`email_id`);--> statement-breakpoint
CREATE INDEX `complaints_account` ON `complaints` (`account_id`,`created_at`);--> statement-breakpoint
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
	`is_active` integer DEFAULT true NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `inbound_routes_uuid_unique` ON `inbound_routes` (`uuid`);--> statement-breakpoint
CREATE INDEX `inbound_routes_account` ON `inbound_routes` (`account_id`);--> statement-breakpoint
CREATE INDEX `inbound_routes_domain` ON `inbound_routes` (`domain_id`,`match_type`,`pattern`);--> statement-breakpoint
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
	`error_message` text,
	`event_seq` integer,
	`webhook_delivered_at` integer,
	`received_at` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `inbound_emails_uuid_unique` ON `inbound_emails` (`uuid`);--> statement-breakpoint
CREATE INDEX `inbound_emails_account` ON `inbound_emails` (`account_id`);--> statement-breakpoint
CREATE INDEX `inbound_emails_status` ON `inbound_emails` (`account_id`,`status`);--> statement-breakpoint
CREATE INDEX `inbound_emails_domain` ON `inbound_emails` (`account_id`,`domain_uuid`,`status`);--> statement-breakpoint
CREATE INDEX `inbound_emails_route_status` ON `inbound_emails` (`route_id`,`status`) WHERE route_id is not null;--> statement-breakpoint
CREATE INDEX `inbound_emails_route` ON `inbound_emails` (`route_id`,`event_seq`) WHERE route_id is not null;--> statement-breakpoint
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
CREATE UNIQUE INDEX `operator_mail_uuid_unique` ON `operator_mail` (`uuid`);--> statement-breakpoint
CREATE INDEX `operator_mail_time` ON `operator_mail` (`created_at`);--> statement-breakpoint
CREATE INDEX `operator_mail_kind` ON `operator_mail` (`kind`);--> statement-breakpoint
CREATE INDEX `operator_mail_network` ON `operator_mail` (`network`,`created_at`);--> statement-breakpoint
CREATE TABLE `received_reports` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`uuid` blob NOT NULL,
	`kind` text NOT NULL,
	`account_id` integer,
	`domain` text NOT NULL,
	`covered_by` text NOT NULL,
	`organisation` text NOT NULL,
	`report_id` text NOT NULL,
	`begin_at` integer,
	`end_at` integer,
	`content_ref` integer NOT NULL,
	`size_bytes` integer NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `received_reports_uuid_unique` ON `received_reports` (`uuid`);--> statement-breakpoint
CREATE UNIQUE INDEX `received_reports_id` ON `received_reports` (`kind`,`organisation`,`report_id`,`domain`);--> statement-breakpoint
CREATE INDEX `received_reports_domain` ON `received_reports` (`domain`,`created_at`);--> statement-breakpoint
CREATE INDEX `received_reports_covered` ON `received_reports` (`covered_by`,`created_at`);--> statement-breakpoint
CREATE TABLE `inbound_secrets` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`secret` blob NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
ALTER TABLE `webhooks` ADD `route_id` integer;--> statement-breakpoint
CREATE UNIQUE INDEX `webhooks_route` ON `webhooks` (`route_id`) WHERE route_id is not null and deleted_at is null;--> statement-breakpoint
CREATE VIRTUAL TABLE `mailbox_search` USING fts5(mailbox, subject, sender, body, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
--> statement-breakpoint
INSERT INTO `counters` (`account_id`, `metric`, `hour`, `value`)
	SELECT `events`.`account_id`, 'sandbox:delivered', `at` / 3600000, count(*) FROM `events` JOIN `emails` ON `emails`.`id` = `email_id`
	WHERE `type` = 4 AND `sandbox` = 1 GROUP BY 1, 2, 3;
