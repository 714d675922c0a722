-- Inserts emails sent over the last 30 days as the service would have written them: one recipient each with three
-- events, counters and the account's quota. Parameters are in the temporary tables `seed` (one row: emails, account_id,
-- domain_id, stream_id, since_ms, until_ms, codes of the status and the events) and `seed_parts` (number, html_ref,
-- text_ref).
CREATE TEMP TABLE seed_emails AS
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT (SELECT emails FROM seed))
SELECT n + 1 AS n, since_ms + CAST((until_ms - since_ms) * (n * 1.0 / emails) AS INTEGER) AS at, n % (SELECT COUNT(*) FROM seed_parts) AS part
FROM numbers, seed;

INSERT INTO emails (id, uuid, account_id, domain_id, stream_id, status, sandbox, transactional, from_address, subject, html_ref, text_ref,
  recipient_count, size_bytes, quota_month, delivered_at, created_at, updated_at)
SELECT n, unhex(printf('%012x7%03x%02x', at, n % 4096, 128 + abs(random()) % 64) || hex(randomblob(7))), account_id, domain_id,
  stream_id, sent_status, 0, 1, from_address, printf('Your order %010d', n), html_ref, text_ref, 1, size_bytes,
  CAST(strftime('%Y', at / 1000, 'unixepoch') AS INTEGER) * 12 + CAST(strftime('%m', at / 1000, 'unixepoch') AS INTEGER) - 1, at + 1200, at, at + 1200
FROM seed_emails JOIN seed_parts ON seed_parts.number = part, seed ORDER BY n;

INSERT INTO recipients (id, email_id, kind, address, status, attempts, delivery_started_at, delivered_at, smtp_response, sending_ip)
SELECT n, n, 0, printf('user-%010d@%s', n, receiver_domain), sent_status, 1, at + 900, at + 1200, '250 2.0.0 taken', '192.0.2.1'
FROM seed_emails, seed ORDER BY n;

INSERT INTO events (account_id, seq, type, at, email_id, recipient_id, data)
SELECT account_id, 3 * (n - 1) + step.value + 1,
  CASE step.value WHEN 0 THEN queued_event WHEN 1 THEN sent_event ELSE delivered_event END,
  CASE step.value WHEN 0 THEN at ELSE at + 1200 END, n, CASE step.value WHEN 0 THEN NULL ELSE n END,
  CASE step.value WHEN 2 THEN '{"smtp_response":"250 2.0.0 taken","ip_address":"192.0.2.1","remote_mta":"mx.bench.test [192.0.2.25]","tls":"TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified"}' END
FROM seed_emails, json_each('[0,1,2]') AS step, seed ORDER BY n, step.value;

INSERT INTO event_sequences (account_id, last_seq) SELECT account_id, 3 * emails FROM seed WHERE emails > 0
ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'event:' || CASE type WHEN queued_event THEN 'queued' WHEN sent_event THEN 'sent' ELSE 'delivered' END, at / 3600000, COUNT(*)
FROM (SELECT type, at FROM events), seed GROUP BY 1, 2, 3;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'email:sent', at / 3600000, COUNT(*) FROM seed_emails, seed GROUP BY 1, 2, 3;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'stream:' || stream_id || ':' || step.value, CASE step.value WHEN 'sent' THEN at ELSE at + 1200 END / 3600000, COUNT(*)
FROM seed_emails, json_each('["sent","delivered"]') AS step, seed GROUP BY 1, 2, 3;

INSERT INTO counters (account_id, metric, hour, value)
SELECT account_id, 'account:' || step.value, CASE step.value WHEN 'sent' THEN at ELSE at + 1200 END / 3600000, COUNT(*)
FROM seed_emails, json_each('["sent","delivered"]') AS step, seed GROUP BY 1, 2, 3;

INSERT INTO daily_figures (account_id, day, domain, sent, delivered)
SELECT account_id, at / 86400000, domain.value, sum(is_sent), sum(NOT is_sent) FROM (
  SELECT at, 1 AS is_sent FROM seed_emails UNION ALL SELECT at + 1200, 0 FROM seed_emails), seed, json_each(json_array('', receiver_domain)) AS domain GROUP BY 1, 2, 3;

INSERT INTO daily_figures (account_id, day, domain, sent, delivered)
SELECT account_id, -(strftime('%Y', day * 86400, 'unixepoch') * 12 + strftime('%m', day * 86400, 'unixepoch') - 1), domain, sum(sent), sum(delivered)
FROM daily_figures WHERE domain <> '' GROUP BY 1, 2, 3;

INSERT INTO usage (account_id, month, recipients) SELECT account_id, quota_month, COUNT(*) FROM emails WHERE quota_month IS NOT NULL GROUP BY 1, 2;

UPDATE domains SET verified_at = 1, next_check_at = (SELECT until_ms + 31536000000 FROM seed) WHERE id = (SELECT domain_id FROM seed);

DROP TABLE seed_emails;
