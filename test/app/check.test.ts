import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { createDataFolder, type DataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Services are processes of their own, on a machine that may be busy.
setDefaultTimeout(60_000)

interface Result {
  readonly ok: boolean
  readonly findings: readonly { readonly rule: string; readonly differences: readonly string[] }[]
}

let intact: DataFolder

// Three emails that wait, because nothing delivers them. Copied for each test.
beforeAll(async () => {
  intact = createDataFolder()
  await setUpAccount(intact.settings)
  for (const to of ['bob@receiver.test', 'carl@receiver.test', 'dora@receiver.test'])
    await runTassis(['send', '--from', 'ada@sender.test', '--to', to, '--no-follow'], intact.settings)
  // A search indexes what it may find.
  await runTassis(['emails', 'list', '--to', 'bob@receiver.test'], intact.settings)
})

afterAll(() => intact[Symbol.dispose]())

/** Checks a copy of the sound data that `corrupt` has changed. */
async function checkCorrupted(corrupt: (db: Database, path: string) => void) {
  using data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  const db = new Database(join(data.path, 'tassis.db'))
  db.run('PRAGMA foreign_keys = OFF')
  corrupt(db, data.path)
  db.close()
  const { exitCode, stdout, stderr } = await runTassis(['check', '--json'], data.settings)
  const { ok, findings } = JSON.parse(stdout) as Result
  return { exitCode, ok, stderr, wrong: findings.filter(({ differences }) => differences.length > 0) }
}

test('sound books: every rule holds and the exit code is 0', async () => {
  expect(await checkCorrupted(() => undefined)).toEqual({ exitCode: 0, ok: true, stderr: '', wrong: [] })
})

test('a corrupted counter is found, with what it says and what there is', async () => {
  const { exitCode, ok, wrong } = await checkCorrupted((db) => {
    db.run("UPDATE counters SET value = value + 1 WHERE metric = 'email:queued'")
  })
  expect({ exitCode, ok }).toEqual({ exitCode: 1, ok: false })
  expect(wrong).toEqual([
    {
      rule: 'the counters of emails by status and hour are what a recount gives',
      differences: [expect.stringMatching(/email:queued, hour .*: the counter says \d+, there are \d+$/)],
    },
  ])
})

const CORRUPTIONS: readonly (readonly [rule: string, sql: string])[] = [
  [
    'the counters of events by type and hour are what a recount gives',
    "DELETE FROM counters WHERE metric = 'event:queued'",
  ],
  ['the events of an account are numbered from 1 without a gap', 'UPDATE event_sequences SET last_seq = last_seq + 1'],
  [
    'the counter of suppressions is what a recount gives',
    "INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'suppressions', 0, 1)",
  ],
  [
    'the counters of suppressions by reason are what a recount gives',
    `INSERT INTO suppressions (uuid, account_id, address, covers, reason, created_at) VALUES (x'00', 1, 'bob@r.test', 0, '50 % | more', 1);
     INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'suppressions', 0, 1)`,
  ],
  [
    'the quota used by sub-accounts is no less than what each of them has used',
    `INSERT INTO accounts (uuid, name, email, plan, parent_id, created_at, updated_at) VALUES (x'00', 'Sub', 'a@b.test', 'free', 1, 1, 1);
     INSERT INTO usage (account_id, month, recipients) VALUES (2, 24314, 5)`,
  ],
  ['the audit log is what was written', "UPDATE audit_logs SET action = 'account.made' WHERE id = 1"],
  [
    'the counters of contacts by list and status are what a recount gives',
    `INSERT INTO contacts (uuid, account_id, list_id, address_key, status, subscribed_at, created_at) VALUES (x'00', 1, 1, 'a@b.test', 1, 1, 1)`,
  ],
  [
    'an active contact waits for no confirmation, and a pending one never was active',
    `INSERT INTO contacts (uuid, account_id, list_id, address_key, status, subscribed_at, created_at) VALUES (x'00', 1, 1, 'a@b.test', 0, 1, 1);
     INSERT INTO counters (account_id, metric, hour, value) VALUES (1, 'contacts:1:active', 0, 1)`,
  ],
  [
    'the counters of complaints by type and hour are what a recount gives',
    "INSERT INTO complaints (account_id, email_id, feedback_type, created_at) VALUES (1, 1, 'abuse', 1)",
  ],
  [
    'an event tells of every complaint of a recipient, and of nothing else',
    "INSERT INTO complaints (account_id, email_id, recipient_id, feedback_type, created_at) VALUES (1, 1, 1, 'abuse', 1)",
  ],
  [
    'the counts of a mailbox are what a recount gives',
    `INSERT INTO agent_mailboxes (uuid, account_id, domain_id, local_part, domain, unread_count, created_at, updated_at)
     VALUES (x'00', 1, 1, 'a', 'sender.test', 1, 1, 1)`,
  ],
  [
    'the counts of threads and contacts of a mailbox are what a recount gives',
    `INSERT INTO agent_mailboxes (uuid, account_id, domain_id, local_part, domain, created_at, updated_at)
     VALUES (x'00', 1, 1, 'a', 'sender.test', 1, 1);
     INSERT INTO mailbox_contacts (mailbox_id, address, message_count, last_message_at) VALUES (1, 'a@b.test', 1, 1)`,
  ],
  ['every email is in the search index, and nothing else is', 'DELETE FROM email_search WHERE rowid = 1'],
  [
    'every message of a mailbox is in the search index, and nothing else is',
    "INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (7, 'm1', '', '', '')",
  ],
  ['the quota used in each month equals a recount', 'UPDATE emails SET quota_month = 24000 WHERE id = 1'],
  ['every email has as many recipients as were accepted', 'UPDATE emails SET recipient_count = 2 WHERE id = 1'],
  ['a recipient is in the queue exactly while it is open', 'UPDATE recipients SET next_at = NULL WHERE id = 1'],
  ['the status of an email is that of its recipients', 'UPDATE recipients SET status = 2 WHERE id = 1'],
  [
    'an event tells how each final recipient ended',
    'UPDATE recipients SET status = 4, lane = NULL, next_at = NULL WHERE id = 1',
  ],
  [
    'only a recipient that is in delivery, sent or uncertain has a start of delivery, and only a sent one an end',
    'UPDATE recipients SET delivery_started_at = 1 WHERE id = 1',
  ],
  ['no recipient is sent to twice', 'UPDATE events SET type = 3, recipient_id = 1'],
  [
    'a dead letter belongs to a recipient that ended as it says',
    "INSERT INTO dead_letters (account_id, email_id, recipient_id, reason, failed_at) VALUES (1, 1, 1, 'failed', 1)",
  ],
  [
    'a webhook delivery has a next attempt time exactly while it is pending',
    "INSERT INTO webhook_deliveries (uuid, webhook_id, event, status, attempts, created_at) VALUES (x'00', 1, 'sent', 0, 1, 1)",
  ],
  [
    'no webhook cursor is ahead of the events of its account',
    "INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, created_at, updated_at) VALUES (x'00', 1, '', '[]', x'00', 1000, 1, 1)",
  ],
  [
    'every open that a recipient has an event of is recorded',
    'INSERT INTO opens (recipient_id, human, events, last_event_at) VALUES (1, 1, 1, 1)',
  ],
  ['what an email or an idempotency key names is there', 'UPDATE emails SET stream_id = 99 WHERE id = 1'],
  [
    'every body and attachment that an email refers to is there',
    'UPDATE emails SET text_ref = text_ref + 1000 WHERE id = 1',
  ],
  ['the database is sound', 'UPDATE emails SET account_id = 99 WHERE id = 1'],
  [
    'accepted = sent + bounced + failed + rejected + cancelled + uncertain + open, in every account',
    'DELETE FROM emails WHERE id = 1',
  ],
]

test.each(CORRUPTIONS)('check finds when it is not so that %s', async (rule, sql) => {
  const { exitCode, wrong } = await checkCorrupted((db) => db.run(sql))
  expect(exitCode).toBe(1)
  expect(wrong.map((finding) => finding.rule)).toContain(rule)
})

test('check reads beside a running service and changes nothing', async () => {
  using data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  await using service = await startServing(data.settings)
  expect(await runTassisJson<Result>(['check'], data.settings)).toMatchObject({ ok: true })
  expect((await fetch(`${service.url}/readyz`)).status).toBe(200)
})

test('people read which rule is broken', async () => {
  using data = createDataFolder()
  cpSync(intact.path, data.path, { recursive: true })
  const db = new Database(join(data.path, 'tassis.db'))
  db.run("UPDATE counters SET value = value + 1 WHERE metric = 'email:queued'")
  db.close()
  const { exitCode, stdout } = await runTassis(['check'], data.settings)
  expect(exitCode).toBe(1)
  expect(stdout).toMatch(
    /\nWRONG {2}the counters of emails by status and hour are what a recount gives\n {9}account 1, /,
  )
  expect(stdout.trimEnd()).toEndWith('1 rule does not hold.')
})
