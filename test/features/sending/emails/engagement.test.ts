/** @module Emails that recipients opened, clicked or complained about, in the list: their flags, states and filter. */
import { expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, expectError } from '#test/support/email-api.ts'

const SIMULATOR = 'sim.mail.tassis.test'

interface Row {
  readonly subject: string
  readonly status: string
  readonly state: string
  readonly engagement: readonly string[]
}

// Proves: email-40
test('the list tells and finds what was opened, clicked or complained about', async () => {
  await using emails = await createEmailApi({ delivers: true, settings: { TASSIS_DELIVERY: 'direct' } })
  const list = async (query = '') => (await emails.api('GET', `/v1/emails?${query}`)).body
  const rowsOf = async (query = '') => at(await list(query), 'data') as Row[]
  const subjectsOf = async (query: string) => (await rowsOf(query)).map(({ subject }) => subject)
  for (const mailbox of ['deliver', 'open', 'click', 'complain', 'bounce', 'click'])
    await emails.accepted({ to: `${mailbox}@${SIMULATOR}`, subject: mailbox, tags: ['sim'], html_body: '<p>Hi</p>' })
  await eventually(async () => (await rowsOf()).every(({ status }) => status === 'sent' || status === 'bounced'))

  expect((await rowsOf()).map(({ subject, state, engagement }) => [subject, state, engagement.join()])).toEqual([
    ['click', 'sent', 'opened,clicked'],
    ['bounce', 'bounced', ''],
    ['complain', 'complained', 'complained'],
    ['click', 'sent', 'opened,clicked'],
    ['open', 'sent', 'opened'],
    ['deliver', 'sent', ''],
  ])
  expect(await subjectsOf('engagement=opened')).toEqual(['click', 'click', 'open'])
  expect(await subjectsOf('engagement=clicked')).toEqual(['click', 'click'])
  expect(await subjectsOf('engagement=complained')).toEqual(['complain'])

  const person = at((await emails.api('GET', `/v1/people/complain@${SIMULATOR}`)).body, 'data')
  expect(person).toMatchObject({
    emails: { by_state: { complained: 1 } },
    recent_emails: [{ recipient_state: 'complained' }],
  })

  const first = await list('engagement=opened&per_page=2')
  expect(at(first, 'pagination')).toMatchObject({ total: 3, total_pages: 2 })
  expect(await subjectsOf(`engagement=opened&per_page=2&cursor=${at(first, 'pagination', 'next_cursor')}`)).toEqual([
    'open',
  ])

  // Together with the other filters.
  expect(await subjectsOf('engagement=opened&status=delivered')).toEqual(['click', 'click', 'open'])
  expect(await subjectsOf('engagement=opened&status=bounced')).toEqual([])
  expect(await subjectsOf('engagement=clicked&tag=sim&per_page=1')).toEqual(['click'])
  expect(await subjectsOf(`engagement=opened&to=open@${SIMULATOR}`)).toEqual(['open'])
  expect(await subjectsOf('engagement=opened&to_date=2026-03-14')).toEqual([])
  expectError(await emails.api('GET', '/v1/emails?engagement=seen'), 422, 'validation_failed', 'engagement')

  const stranger = await emails.newAccount()
  const { body } = await emails.api('GET', '/v1/emails?engagement=opened', undefined, {
    key: await emails.newKey([], stranger),
  })
  expect(at(body, 'data')).toEqual([])
  expectBalanced(emails)
})
