/**
 * @module The search index is written after acceptance: which emails are pending, when they are indexed, and what
 * happens to them before that.
 */
import { expect, spyOn, test } from 'bun:test'
import { cpSync } from 'node:fs'
import type { App } from '#features/core/app/app.ts'
import { searchEmails } from '#features/sending/emails/search-list.ts'
import { anonymiseRecipients, eraseEmailContent } from '#features/sending/queue/erase.ts'
import { deleteEmail, findOldEmail } from '#features/sending/queue/retire.ts'
import { ANY_TIME, indexPendingEmails } from '#features/sending/queue/search.ts'
import { SHARD_SIZE } from '#features/sending/queue/search-match.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { insufficientStorage } from '#platform/errors.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, EMAIL, type EmailApi, shareEmailApi } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'

const searchSubjects = async (emails: EmailApi, query: Record<string, string>) => {
  const { body } = await emails.api('GET', `/v1/emails?${new URLSearchParams(query)}`)
  const subjects = (at(body, 'data') as { subject: string }[]).map(({ subject }) => subject)
  expect(at(body, 'pagination', 'total')).toBe(subjects.length)
  return subjects
}

const indexed = ({ db }: Pick<App, 'db'>): number[] =>
  db
    .query<{ id: number }, []>('SELECT id FROM email_search_docsize ORDER BY id')
    .all()
    .map(({ id }) => id)

const accept = async (emails: EmailApi, ...subjects: readonly string[]) => {
  for (const subject of subjects) await emails.accepted({ subject })
}

/** Cancels every recipient, so that none is open. */
const endAllMail = ({ app }: EmailApi) =>
  app.db.run(`UPDATE recipients SET status = ${statusCode('cancelled')}, lane = NULL, next_at = NULL`)

const remove = ({ app }: EmailApi, ...ids: readonly number[]) =>
  app.commit.write((tx) => {
    for (const id of ids) {
      const email = findOldEmail(app.db, id)
      if (email) deleteEmail(app, tx, email)
    }
  })

/** Copies an email under new row ids, with the given recipient count but without recipient rows. */
const copyEmail = ({ app }: EmailApi, count: number, recipientCount = 1) =>
  app.commit.write((tx) => {
    const columns = tx.db
      .query<{ name: string }, []>(
        "SELECT name FROM pragma_table_info('emails') WHERE name NOT IN ('id', 'uuid', 'recipient_count')",
      )
      .all()
      .map(({ name }) => name)
      .join(', ')
    tx.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       INSERT INTO emails (uuid, recipient_count, ${columns})
       SELECT randomblob(16), ${recipientCount}, ${columns} FROM emails, n WHERE id = 1`,
    )
  })

const emails = shareEmailApi(createEmailApi)

test('acceptance does not write into the index, and a search directly after the 202 finds the email', async () => {
  await accept(emails, 'one', 'two')
  expect(indexed(emails.app)).toEqual([])
  expect(await searchSubjects(emails, { to: EMAIL.to })).toEqual(['two', 'one'])
  expect(indexed(emails.app)).toEqual([1, 2])
  await accept(emails, 'three')
  expect(await searchSubjects(emails, { to: EMAIL.to, status: 'queued' })).toEqual(['three', 'two', 'one'])
})

test('a service indexes emails a second after they were accepted, until none is pending', async () => {
  await using emails = await createEmailApi({ runsTasks: true })
  const { app, clock } = emails
  for (const [index, subjects] of [
    ['one', 'two'],
    ['three', 'four'],
  ].entries()) {
    await accept(emails, ...subjects)
    expect(indexed(app)).toHaveLength(2 * index)
    await eventually(() => {
      clock.advance(100)
      return indexed(app).length === 2 * index + 2
    })
    // Gives the loop time to find nothing pending.
    await Bun.sleep(20)
  }
  expectBalanced(emails)
})

test('pending emails are indexed in transactions of at most 500', async () => {
  await accept(emails, 'one')
  await copyEmail(emails, 1199)
  using batches = spyOn(emails.app.commit, 'writeFromReserve')
  await indexPendingEmails(emails.app)
  expect(batches).toHaveBeenCalledTimes(3)
  expect(indexed(emails.app)).toHaveLength(1200)
  await indexPendingEmails(emails.app)
  expect(batches).toHaveBeenCalledTimes(3)
})

test('row ids without an email that has all words take time too, and the cursor goes on after them', async () => {
  await accept(emails, 'one')
  await copyEmail(emails, 1)
  emails.app.db.run(`UPDATE emails SET id = ${3 * SHARD_SIZE}, subject = 'two' WHERE id = 2`)
  await indexPendingEmails(emails.app)
  let elapsedMs = 0
  using _ = spyOn(emails.clock, 'monotonicMs').mockImplementation(() => (elapsedMs += 200))
  const pages: unknown[] = []
  for (let cursor: unknown = ''; cursor !== undefined && pages.length < 9; ) {
    const { body } = await emails.api('GET', `/v1/emails?subject=one&from=ada@sender.test${cursor}`)
    pages.push(at(body, 'data'))
    const next = (at(body, 'pagination') as { next_cursor?: string }).next_cursor
    cursor = next && `&cursor=${next}`
  }
  expect(pages.length).toBeGreaterThan(1)
  expect(pages.flat()).toMatchObject([{ subject: 'one' }])
})

test('emails with many recipients are indexed in smaller transactions, and so is an email that alone exceeds the limit', async () => {
  await accept(emails, 'one')
  await copyEmail(emails, 4, 950)
  await copyEmail(emails, 1, 9000)
  await copyEmail(emails, 1)
  using batches = spyOn(emails.app.commit, 'writeFromReserve')
  await indexPendingEmails(emails.app)
  expect(batches).toHaveBeenCalledTimes(4)
  expect(indexed(emails.app)).toEqual([1, 2, 3, 4, 5, 6, 7])
})

test('emails that were pending when the process was killed are indexed after the next start', async () => {
  await accept(emails, 'one')
  await indexPendingEmails(emails.app)
  await accept(emails, 'two', 'three')
  // The files as kill -9 leaves them, with all committed data in the WAL.
  using folder = createFolder()
  const dataDir = folder.path
  cpSync(emails.dataDir, dataDir, { recursive: true })
  await using restarted = await createTestApp({ dataDir, runsTasks: true })
  expectBalanced(restarted)
  await eventually(() => indexed(restarted.app).length === 3)
  expectBalanced(restarted)
})

test('a batch that fails leaves its emails pending', async () => {
  await accept(emails, 'one', 'two')
  const { app } = emails
  const write = app.commit.writeFromReserve.bind(app.commit)
  using _ = spyOn(app.commit, 'writeFromReserve').mockImplementationOnce((run, options) =>
    write((tx) => {
      run(tx)
      throw insufficientStorage()
    }, options),
  )
  await expect(indexPendingEmails(app)).rejects.toThrow()
  expect(indexed(app)).toEqual([])
  expect(await searchSubjects(emails, { subject: 'one' })).toEqual(['one'])
})

test('while nothing can be stored, a search finds the emails that are in the index', async () => {
  await accept(emails, 'first')
  await indexPendingEmails(emails.app)
  await accept(emails, 'second')
  const { app, actor } = emails
  using _ = spyOn(app.commit, 'writeFromReserve').mockRejectedValue(insufficientStorage())
  const { emails: rows } = await searchEmails(
    app,
    actor.accountId,
    { filter: { status: undefined, from: ANY_TIME.from, to: ANY_TIME.to }, search: { to: EMAIL.to } },
    { limit: 10, offset: 0, after: undefined },
  )
  expect(rows.map(({ subject }) => subject)).toEqual(['first'])
})

test('a pending email that is erased is indexed without the erased data', async () => {
  await emails.accepted({ subject: 'kept' })
  await indexPendingEmails(emails.app)
  await emails.accepted({ subject: 'secret', to: 'zebra@x.test' })
  const { app } = emails
  endAllMail(emails)
  await app.commit.write((tx) => {
    expect(anonymiseRecipients(tx, 2, (address) => address === 'zebra@x.test').isAll).toBe(true)
    expect(eraseEmailContent(app, tx, 2)).toBe(true)
  })
  expect(indexed(app)).toEqual([1])
  await indexPendingEmails(app)
  expect(indexed(app)).toEqual([1, 2])
  expect(await searchSubjects(emails, { to: 'zebra@x.test' })).toEqual([])
  expect(await searchSubjects(emails, { subject: 'secret' })).toEqual([])
  expect(await searchSubjects(emails, { from: EMAIL.from })).toEqual(['', 'kept'])
})

test('pending and indexed emails can be deleted in any order, and the index follows', async () => {
  const { app } = emails
  await accept(emails, '1', '2', '3')
  await indexPendingEmails(app)
  await accept(emails, '4', '5', '6')
  endAllMail(emails)
  await remove(emails, 3, 4)
  expect(indexed(app)).toEqual([1, 2])
  await remove(emails, 6)
  await indexPendingEmails(app)
  expect(indexed(app)).toEqual([1, 2, 5])
  await remove(emails, 1, 2, 5)
  expect(indexed(app)).toEqual([])
  await accept(emails, '7')
  await remove(emails, 7)
  await indexPendingEmails(app)
  await accept(emails, '8')
  expect(await searchSubjects(emails, { to: EMAIL.to })).toEqual(['8'])
  expect(indexed(app)).toEqual([8])
})
