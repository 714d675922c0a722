-- Inserts a part of the stored mail as the service would have written it: emails of one recipient each, some of them
-- bounced, opened or clicked, with their events, counters and statistics. Parameters are in the temporary tables `seed`
-- (one row: first (emails before), emails (of this part), all_emails, since_ms and until_ms (of all), last_seq,
-- account_id, domain_id, stream_id, from_address, receiver_domain, people, domains, size_bytes, codes of statuses, and
-- event_codes as JSON) and `seed_bodies` (number, html_ref, text_ref). Addresses repeat; the share of the n-th domain is
-- proportional to 1/n, as in real mail.
CREATE TEMP TABLE seed_part AS
WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers LIMIT (SELECT emails FROM seed))
SELECT n, at, n % 50 = 0 AS bounced, n % 10 IN (1, 4, 6, 8) AS opened, n % 10 = 4 AS clicked, person,
  CAST(strftime('%Y', at / 1000, 'unixepoch') AS INTEGER) * 12 + CAST(strftime('%m', at / 1000, 'unixepoch') AS INTEGER) - 1 AS month,
  printf('d%d.%s', CAST(pow(domains, ((person + 1) * 2654435761 % 4294967296) / 4294967296.0) AS INTEGER), receiver_domain) AS domain
FROM (SELECT first + i + 1 AS n, since_ms + CAST((until_ms - since_ms) * ((first + i) * 1.0 / all_emails) AS INTEGER) AS at,
  (first + i) * 7919 % people AS person FROM numbers, seed), seed;

INSERT INTO emails (id, uuid, account_id, domain_id, stream_id, status, sandbox, transactional, tracked, from_address, subject, extra, html_ref, text_ref,
  recipient_count, size_bytes, quota_month, delivered_at, engagement, created_at, updated_at)
SELECT n, unhex(printf('%012x7%03x%02x', at, n % 4096, 128 + abs(random()) % 64) || hex(randomblob(7))), account_id, domain_id, stream_id,
  iif(bounced, bounced_status, sent_status), 0, 1, 1, from_address, printf('Your order %010d', n), printf('{"tags":["tag-%d"]}', n % 1000),
  html_ref, text_ref, 1, size_bytes, month, iif(bounced, NULL, at + 1200), opened + 2 * clicked, at, at + 1200
FROM seed_part JOIN seed_bodies ON seed_bodies.number = n % (SELECT count(*) FROM seed_bodies), seed ORDER BY n;

INSERT INTO recipients (id, email_id, kind, address, status, attempts, delivery_started_at, delivered_at, smtp_response, sending_ip)
SELECT n, n, 0, printf('user-%d@%s', person, domain), iif(bounced, bounced_status, sent_status), 1, iif(bounced, NULL, at + 900), iif(bounced, NULL, at + 1200),
  iif(bounced, '550 5.1.1 no such user', '250 2.0.0 taken'), '192.0.2.1'
FROM seed_part, seed ORDER BY n;

CREATE TEMP TABLE seed_events AS
SELECT row_number() OVER (ORDER BY n, step) AS number, n, name, at, step, domain FROM (
  SELECT n, domain, 'queued' AS name, at, 0 AS step FROM seed_part
  UNION ALL SELECT n, domain, 'sent', at + 1200, 1 FROM seed_part WHERE NOT bounced
  UNION ALL SELECT n, domain, 'delivered', at + 1200, 2 FROM seed_part WHERE NOT bounced
  UNION ALL SELECT n, domain, 'bounced', at + 1200, 2 FROM seed_part WHERE bounced
  UNION ALL SELECT n, domain, 'opened', at + 3600000, 3 FROM seed_part WHERE opened
  UNION ALL SELECT n, domain, 'clicked', at + 3660000, 4 FROM seed_part WHERE clicked);

INSERT INTO events (account_id, seq, type, at, email_id, recipient_id, data)
SELECT account_id, last_seq + number, json_extract(event_codes, '$.' || name), at, n, iif(step = 0, NULL, n), CASE name
  WHEN 'delivered' THEN '{"smtp_response":"250 2.0.0 taken","ip_address":"192.0.2.1","remote_mta":"mx.bench.test [192.0.2.25]","tls":"TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified"}'
  WHEN 'bounced' THEN '{"smtp_response":"550 5.1.1 no such user","bounce_type":"hard","bounce_category":"unknown_user"}'
  WHEN 'opened' THEN '{"ip_address":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64) Thunderbird/140.0"}'
  WHEN 'clicked' THEN '{"ip_address":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64)","link_url":"https://shop.example/order"}' END
FROM seed_events, seed ORDER BY number;

INSERT INTO event_sequences (account_id, last_seq) SELECT account_id, last_seq + (SELECT count(*) FROM seed_events) FROM seed WHERE TRUE
ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq;

INSERT INTO opens (recipient_id, human, events, last_event_at) SELECT n, 1, 1, at + 3600000 FROM seed_part WHERE opened;
INSERT INTO link_clicks (email_id, url_hash, url, human, days, last_day, last_clicked_at)
SELECT n, x'0102030405060708', 'https://shop.example/order', 1, 1, (at + 3660000) / 86400000, at + 3660000 FROM seed_part WHERE clicked;
INSERT INTO click_marks (recipient_id, url_hash, events, last_event_at) SELECT n, x'0102030405060708', 1, at + 3660000 FROM seed_part WHERE clicked;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, metric, at / 3600000, count(*) FROM (
  SELECT 'event:' || name AS metric, at FROM seed_events
  UNION ALL SELECT 'email:' || iif(bounced, 'bounced', 'sent'), at FROM seed_part
  UNION ALL SELECT 'stream:' || stream_id || ':sent', at FROM seed_part, seed
  UNION ALL SELECT 'stream:' || stream_id || ':' || name, at FROM seed_events, seed WHERE name IN ('delivered', 'bounced')
  UNION ALL SELECT 'account:sent', at FROM seed_part
  UNION ALL SELECT 'first:' || name, at FROM seed_events WHERE name IN ('opened', 'clicked')
  UNION ALL SELECT 'account:delivered', at FROM seed_events WHERE name = 'delivered'), seed WHERE TRUE GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET value = value + excluded.value;

CREATE TEMP TABLE seed_days AS
SELECT at / 86400000 AS day, domain, sum(name = 'queued') AS sent, sum(name = 'delivered') AS delivered, sum(name = 'bounced') AS bounced,
  sum(name = 'opened') AS opens, sum(name = 'clicked') AS clicks
FROM seed_events GROUP BY 1, 2;

-- Each domain by day, and all domains by day.
INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced, opens, clicks, opened_emails, clicked_emails)
SELECT account_id, day, iif(scope.value = 'all', '', domain), sum(sent), sum(delivered), sum(bounced), sum(opens),
  sum(clicks), sum(opens), sum(clicks)
FROM seed_days, json_each('["domain","all"]') AS scope, seed WHERE TRUE GROUP BY 1, 2, 3
ON CONFLICT DO UPDATE SET sent = sent + excluded.sent, delivered = delivered + excluded.delivered, bounced = bounced + excluded.bounced,
  opens = opens + excluded.opens, clicks = clicks + excluded.clicks, opened_emails = opened_emails + excluded.opened_emails,
  clicked_emails = clicked_emails + excluded.clicked_emails;

INSERT INTO usage (account_id, month, recipients) SELECT account_id, month, count(*) FROM seed_part, seed WHERE TRUE GROUP BY 1, 2
ON CONFLICT DO UPDATE SET recipients = recipients + excluded.recipients;

DROP TABLE seed_days;
DROP TABLE seed_events;
DROP TABLE seed_part;
