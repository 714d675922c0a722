-- Inserts the mail of one day as the service would have written it: emails of one recipient each, some of them bounced,
-- opened or clicked, with their events, counters and statistics. Parameters are in the temporary table `seed` (one row:
-- account_id, domain_id, stream_id, from_address, size_bytes, domains, emails (of this day), first (emails before),
-- last_seq, since_ms, quota_month, codes of statuses and events). Recipients are distributed over domains as in real
-- mail: the share of the n-th domain is proportional to 1/n.
CREATE TEMP TABLE seed_day AS
WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers LIMIT (SELECT emails FROM seed))
SELECT first + i + 1 AS n, since_ms + CAST(68400000 * (i * 1.0 / emails) AS INTEGER) AS at, i % 50 = 49 AS bounced, i % 10 IN (1, 4, 6, 8) AS opened,
  i % 10 = 4 AS clicked, printf('d%d.example', CAST(pow(domains, ((first + i + 1) * 2654435761 % 4294967296) / 4294967296.0) AS INTEGER)) AS domain
FROM numbers, seed;

INSERT INTO emails (id, uuid, account_id, domain_id, stream_id, status, sandbox, transactional, tracked, from_address, subject,
  recipient_count, size_bytes, quota_month, delivered_at, created_at, updated_at)
SELECT n, unhex(printf('%012x7%03x%02x', at, n % 4096, 128 + abs(random()) % 64) || hex(randomblob(7))), account_id, domain_id, stream_id,
  iif(bounced, bounced_status, sent_status), 0, 1, 1, from_address, printf('Your order %010d', n), 1, size_bytes, quota_month,
  iif(bounced, NULL, at + 1200), at, at + 1200
FROM seed_day, seed ORDER BY n;

INSERT INTO recipients (id, email_id, kind, address, status, attempts, delivery_started_at, delivered_at, smtp_response, sending_ip)
SELECT n, n, 0, printf('user-%010d@%s', n, domain), iif(bounced, bounced_status, sent_status), 1, iif(bounced, NULL, at + 900), iif(bounced, NULL, at + 1200),
  iif(bounced, '550 5.1.1 no such user', '250 2.0.0 taken'), '192.0.2.1'
FROM seed_day, seed ORDER BY n;

CREATE TEMP TABLE seed_events AS
SELECT row_number() OVER (ORDER BY at, n, step) AS number, n, type, at, step, domain FROM (
  SELECT n, domain, queued_event AS type, at, 0 AS step FROM seed_day, seed
  UNION ALL SELECT n, domain, sent_event, at + 1200, 1 FROM seed_day, seed WHERE NOT bounced
  UNION ALL SELECT n, domain, delivered_event, at + 1200, 2 FROM seed_day, seed WHERE NOT bounced
  UNION ALL SELECT n, domain, bounced_event, at + 1200, 2 FROM seed_day, seed WHERE bounced
  UNION ALL SELECT n, domain, opened_event, at + 3600000, 3 FROM seed_day, seed WHERE opened
  UNION ALL SELECT n, domain, clicked_event, at + 3660000, 4 FROM seed_day, seed WHERE clicked);

INSERT INTO events (account_id, seq, type, at, email_id, recipient_id, data)
SELECT account_id, last_seq + number, type, at, n, iif(step = 0, NULL, n), CASE type
  WHEN delivered_event THEN '{"smtp_response":"250 2.0.0 taken","ip_address":"192.0.2.1","remote_mta":"mx.bench.test [192.0.2.25]","tls":"TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified"}'
  WHEN bounced_event THEN '{"smtp_response":"550 5.1.1 no such user","bounce_type":"hard","bounce_category":"unknown_user"}'
  WHEN opened_event THEN '{"ip_address":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64) Thunderbird/140.0"}'
  WHEN clicked_event THEN '{"ip_address":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64)","link_url":"https://shop.example/order"}' END
FROM seed_events, seed ORDER BY number;

INSERT INTO event_sequences (account_id, last_seq) SELECT account_id, last_seq + (SELECT count(*) FROM seed_events) FROM seed WHERE emails > 0
ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq;

INSERT INTO opens (recipient_id, human, events, last_event_at) SELECT n, 1, 1, at + 3600000 FROM seed_day WHERE opened;
INSERT INTO link_clicks (email_id, url_hash, url, human, days, last_day, last_clicked_at)
SELECT n, x'0102030405060708', 'https://shop.example/order', 1, 1, (at + 3660000) / 86400000, at + 3660000 FROM seed_day WHERE clicked;
INSERT INTO click_marks (recipient_id, url_hash, events, last_event_at) SELECT n, x'0102030405060708', 1, at + 3660000 FROM seed_day WHERE clicked;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'event:' || CASE type WHEN queued_event THEN 'queued' WHEN sent_event THEN 'sent' WHEN delivered_event THEN 'delivered'
  WHEN bounced_event THEN 'bounced' WHEN opened_event THEN 'opened' ELSE 'clicked' END, at / 3600000, count(*) FROM seed_events, seed GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;
INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'email:' || iif(bounced, 'bounced', 'sent'), at / 3600000, count(*) FROM seed_day, seed GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;
INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'stream:' || stream_id || ':sent', at / 3600000, count(*) FROM seed_day, seed GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;
INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'account:sent', at / 3600000, count(*) FROM seed_day, seed GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;
INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'account:delivered', at / 3600000, count(*) FROM seed_events, seed WHERE type = delivered_event GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;
INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'stream:' || stream_id || ':' || iif(type = delivered_event, 'delivered', 'bounced'), at / 3600000, count(*)
FROM seed_events, seed WHERE type IN (delivered_event, bounced_event) GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;

INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced, opens, clicks, opened_emails, clicked_emails)
SELECT account_id, since_ms / 86400000, domain, count(*), sum(NOT bounced), sum(bounced), sum(opened), sum(clicked), sum(opened), sum(clicked)
FROM seed_day, seed GROUP BY domain;
INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced, opens, clicks, opened_emails, clicked_emails)
SELECT account_id, since_ms / 86400000, '', count(*), sum(NOT bounced), sum(bounced), sum(opened), sum(clicked), sum(opened), sum(clicked)
FROM seed_day, seed WHERE emails > 0 GROUP BY account_id;

INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced, opens, clicks, opened_emails, clicked_emails)
SELECT account_id, -quota_month, domain, count(*), sum(NOT bounced), sum(bounced), sum(opened), sum(clicked), sum(opened), sum(clicked)
FROM seed_day, seed WHERE TRUE GROUP BY domain
ON CONFLICT DO UPDATE SET sent = sent + excluded.sent, delivered = delivered + excluded.delivered, bounced = bounced + excluded.bounced,
  opens = opens + excluded.opens, clicks = clicks + excluded.clicks, opened_emails = opened_emails + excluded.opened_emails,
  clicked_emails = clicked_emails + excluded.clicked_emails;

INSERT INTO usage (account_id, month, recipients) SELECT account_id, quota_month, emails FROM seed WHERE emails > 0
ON CONFLICT DO UPDATE SET recipients = recipients + excluded.recipients;

DROP TABLE seed_events;
DROP TABLE seed_day;
