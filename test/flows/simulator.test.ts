/** @module The simulator over HTTP: what a staging system or a CI job sees. */
import { expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, EMAIL, expectError } from '#test/support/email-api.ts'
import { startMisbehaving } from '#test/support/misbehaving.ts'

const SIMULATOR = 'sim.mail.tassis.test'

test('a batch may mix mail to the simulator with other mail; an email may not', async () => {
  await using service = await createEmailApi()
  const answer = await service.api('POST', '/v1/emails/batch', {
    emails: [
      { ...EMAIL, to: `deliver@${SIMULATOR}` },
      { ...EMAIL, to: [`deliver@${SIMULATOR}`, 'bob@receiver.test'] },
      { ...EMAIL, to: 'bob@receiver.test' },
    ],
  })
  expect(answer.status).toBe(202)
  expect(at(answer.body, 'data')).toMatchObject([{ sandbox: true }, { sandbox: false }])
  expect(at(answer.body, 'errors')).toMatchObject([{ index: 1 }])
  expectError(
    await service.send({ to: `deliver@${SIMULATOR}`, bcc: ['bob@receiver.test'] }),
    422,
    'simulator_mixed',
    'to',
  )
})

test('a broadcast sends its simulated contacts to the simulator and counts only the others in the quota', async () => {
  await using receiver = await startMisbehaving()
  await using service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    runsTasks: true,
    settings: {
      TASSIS_DELIVERY: 'relay',
      TASSIS_RELAY_URL: `smtp://127.0.0.1:${receiver.port}`,
      TASSIS_RELAY_TLS: 'opportunistic',
      TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    },
  })
  const list = await newList(service, 'News')
  const addresses = ['deliver', 'open', 'bounce'].map((mailbox) => `${mailbox}@${SIMULATOR}`)
  await addContacts(
    service.app,
    list,
    [...addresses, 'bob@receiver.test'].map((email) => ({ email })),
  )
  const answer = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: EMAIL.from,
    subject: 'News',
    text_body: 'Hello.',
  })
  expect(answer.status).toBe(202)
  const rows = () =>
    service.app.db
      .query<{ address: string; sandbox: number; bounced: number }, []>(
        `SELECT address, sandbox, bounce_type IS NOT NULL AS bounced FROM recipients JOIN emails ON emails.id = email_id
         WHERE recipients.delivered_at IS NOT NULL OR bounce_type IS NOT NULL ORDER BY address`,
      )
      .all()
  await eventually(() => rows().length === 4)
  expect(rows()).toEqual([
    { address: 'bob@receiver.test', sandbox: 0, bounced: 0 },
    { address: `bounce@${SIMULATOR}`, sandbox: 1, bounced: 1 },
    { address: `deliver@${SIMULATOR}`, sandbox: 1, bounced: 0 },
    { address: `open@${SIMULATOR}`, sandbox: 1, bounced: 0 },
  ])
  expect(receiver.messages.map(({ rcptTo }) => rcptTo)).toEqual(['bob@receiver.test'])
  expect(service.used()).toBe(1)
  expect(service.app.db.query('SELECT * FROM suppressions').all()).toEqual([])
  await eventually(() => service.delivery?.scheduler.inFlight === 0)
  expectBalanced(service)
})
