import { beforeEach, expect, spyOn, test } from 'bun:test'
import { releaseOverdueMail } from '#features/sending/delivery/schedule/waits.ts'
import { createLog } from '#platform/log/log.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createEmailApi, EMAIL, NOW, shareEmailApi } from '#test/support/email-api.ts'

const logged: string[] = []
const emails = shareEmailApi(() =>
  createEmailApi({ log: createLog('warn', { write: (line) => void logged.push(line) }) }),
)
beforeEach(() => {
  logged.length = 0
})

/** Queues an email to each domain, with the given recipient fields. */
async function insertQueued(
  rows: Record<string, { nextAt: number; attempts?: number; lastError?: string }>,
): Promise<void> {
  const requests = Object.keys(rows).map((domain) => ({ ...EMAIL, to: `bob@${domain}` }))
  await emails.api('POST', '/v1/emails/batch', { emails: requests })
  for (const [domain, { nextAt, attempts = 0, lastError = null }] of Object.entries(rows))
    emails.app.db.run('UPDATE recipients SET next_at = ?, attempts = ?, last_error = ? WHERE address = ?', [
      nextAt,
      attempts,
      lastError,
      `bob@${domain}`,
    ])
}

const readDueTimes = (): Record<string, number> =>
  Object.fromEntries(
    emails.app.db
      .query<{ address: string; nextAt: number }, []>('SELECT address, next_at AS nextAt FROM recipients ORDER BY id')
      .all()
      .map(({ address, nextAt }) => [address.slice(address.indexOf('@') + 1), nextAt]),
  )

const release = () => releaseOverdueMail(emails.app, new AbortController().signal)

test('mail that waits longer than its retry schedule is due now; other mail keeps its time', async () => {
  await insertQueued({
    'ladder.test': { nextAt: NOW + hours(8), attempts: 8 },
    'new.test': { nextAt: NOW + days(40) },
    'rest.test': { nextAt: NOW + minutes(15) },
    'tried.test': { nextAt: NOW + hours(8), attempts: 1 },
    'account.test': { nextAt: NOW + days(40), lastError: 'Held: The account is paused.' },
  })
  await release()
  expect(readDueTimes()).toEqual({
    'ladder.test': NOW + hours(8),
    'new.test': NOW,
    'rest.test': NOW + minutes(15),
    'tried.test': NOW,
    'account.test': NOW + days(40),
  })
  expect(logged).toEqual([expect.stringContaining('"recipients":2')])
})

test('many domains with correctly waiting mail cost no transaction', async () => {
  const domains = Array.from({ length: 90 }, (_, i) => `d${i}.test`)
  await insertQueued(Object.fromEntries(domains.map((domain) => [domain, { nextAt: NOW + hours(1), attempts: 5 }])))
  using write = spyOn(emails.app.commit, 'writeFromReserve')
  await release()
  expect(write).toHaveBeenCalledTimes(0)
})

test('mail beyond one batch is found, in all domains', async () => {
  for (let batch = 0; batch < 7; batch++)
    await insertQueued(
      Object.fromEntries(Array.from({ length: 90 }, (_, i) => [`d${batch}-${i}.test`, { nextAt: NOW + days(40) }])),
    )
  await release()
  expect(new Set(Object.values(readDueTimes()))).toEqual(new Set([NOW]))
  expect(logged).toEqual([expect.stringContaining('"recipients":630')])
})

test('mail that waits an hour for its content is not overdue, but mail that waits longer is', async () => {
  const WHY = 'The stored content of the email is missing or damaged; it is sent once it is back.'
  const lastError = `Held without its content: ${WHY}`
  await insertQueued({
    'held.test': { nextAt: NOW + hours(1), lastError },
    'misdated.test': { nextAt: NOW + days(40), lastError },
  })
  await release()
  expect(readDueTimes()).toEqual({ 'held.test': NOW + hours(1), 'misdated.test': NOW })
  expect(logged).toEqual([expect.stringContaining('"recipients":1')])
})
