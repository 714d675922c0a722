/** @module GET /v1/operator/emails: the emails of all accounts, merged page by page. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import type { BrowserSession } from '#test/support/users.ts'

let emails: EmailApi
let operator: BrowserSession
/** Subjects, newest first. */
let sent: string[]

// Three accounts in turns, of which one has most of the mail, and several emails in one millisecond.
beforeAll(async () => {
  emails = await createEmailApi()
  operator = await signInAsOperator(emails)
  const addAccount = async (domain: string) => {
    const account = await emails.newAccount()
    await emails.addDomain(account, domain)
    return { key: await emails.newKey([], account), from: `bea@${domain}` }
  }
  const others = [await addAccount('beta.test'), await addAccount('gamma.test')]
  const subjects: string[] = []
  for (let i = 0; i < 14; i++) {
    const account = i % 7 === 6 ? others[1] : i % 3 === 2 ? others[0] : undefined
    const request = {
      subject: `Mail ${i}`,
      tags: [i % 2 === 0 ? 'even' : 'odd'],
      to: i < 9 ? 'bob@one.test' : 'eve@two.test',
      ...(account && { from: account.from }),
    }
    await emails.accepted(request, account ? { key: account.key } : {})
    subjects.unshift(`Mail ${i}`)
    if (i % 3 === 0) emails.clock.advance(1)
  }
  sent = subjects
})
afterAll(() => emails[Symbol.asyncDispose]())

interface Row {
  readonly subject: string
  readonly account: string
  readonly account_id: string
}

async function readAll(query: Record<string, string>): Promise<Row[]> {
  const rows: Row[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const path = `/v1/operator/emails?${new URLSearchParams({ ...query, ...(cursor !== '' && { cursor }) })}`
    const { status, body } = await operator.ask('GET', path)
    expect(status).toBe(200)
    const page = at(body, 'data') as Row[]
    expect(page.length).toBeLessThanOrEqual(Number(query['per_page'] ?? 20))
    rows.push(...page)
    cursor = (at(body, 'pagination') as { next_cursor?: string }).next_cursor
  }
  return rows
}

// Proves: operator-41
test('pages of every size have each email of all accounts once, newest first, with its account', async () => {
  for (const size of [1, 2, 3, 5, 14, 20]) {
    const rows = await readAll({ per_page: String(size) })
    expect({ size, subjects: rows.map(({ subject }) => subject) }).toEqual({ size, subjects: sent })
    expect(new Set(rows.map(({ account_id: id }) => id)).size).toBe(3)
    expect(rows[0]?.account).toBe('Test')
  }
})

// Proves: operator-41
test('filters and searches hold for all accounts, and an account limits them', async () => {
  const numbers = async (query: Record<string, string>) =>
    (await readAll({ ...query, per_page: '3' })).map(({ subject }) => Number(subject.slice('Mail '.length)))
  expect(await numbers({ tag: 'odd' })).toEqual([13, 11, 9, 7, 5, 3, 1])
  expect(await numbers({ tag: 'odd', status: 'queued', to: 'bob' })).toEqual([7, 5, 3, 1])
  expect(await numbers({ status: 'sent' })).toEqual([])
  expect(await numbers({ account_id: emails.actor.accountUuid })).toEqual([12, 10, 9, 7, 4, 3, 1, 0])
  expect(await numbers({ account_id: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24' })).toEqual([])
  for (const query of ['page=2', 'cursor=x', 'to=@', 'domain=none.test'])
    expect([query, (await operator.ask('GET', `/v1/operator/emails?${query}`)).status]).toEqual([query, 422])
})
