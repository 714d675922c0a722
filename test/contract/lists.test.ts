import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { type ContractApi, createContractApi, LISTED, ROUTES, routeName } from './routes.ts'

// A service of its own, used only for reading: every change adds to the audit log, and all rows of a list must fit on
// one page.
let service: ContractApi
beforeAll(async () => {
  service = await createContractApi({ TASSIS_REQUEST_LOG_ROWS: '90' })
  for (const resource of LISTED) {
    for (let createdCount = 0; createdCount < 3; createdCount++) {
      service.clock.advance(1000)
      await service.make(resource)
    }
  }
  // Deletes the lists that were created for forms but have none.
  service.app.db.run(
    "UPDATE contact_lists SET deleted_at = 1 WHERE name LIKE 'Formless%' AND id NOT IN (SELECT list_id FROM signup_forms)",
  )
})
afterAll(() => service[Symbol.asyncDispose]())

const LISTS = ROUTES.filter(({ paged }) => paged).map((route) => [routeName(route), route] as const)

const encoded = (json: string): string => Buffer.from(json).toString('base64url')

describe.each(LISTS)('the list %s', (_, route) => {
  // The reads of each list have a time of their own in the request log.
  beforeAll(() => service.clock.advance(1))

  const page = async (query: string) => {
    const answer = await service.api('GET', `${route.path}${query}`)
    if (answer.status !== 200) throw new Error(`${query}: ${JSON.stringify(answer.body)}`)
    return {
      rows: at(answer.body, 'data') as { id: string }[],
      pagination: at(answer.body, 'pagination') as { page: number; next_cursor?: string },
    }
  }

  // Proves: list-2, list-3, list-4, list-5, list-8, template-1, contact-1, form-1, inbound-1
  test('has pages numbered from 1, newest rows first; pages past its end are empty', async () => {
    const all = await page('?per_page=100')
    const total = all.rows.length
    expect(total).toBeGreaterThan(2)
    expect((await page('')).pagination).toMatchObject({ page: 1, per_page: 25, total })
    const perPage = total - 1
    const ids = (rows: { id: string }[]) => rows.map(({ id }) => id)
    for (const [number, rows] of [
      [1, ids(all.rows).slice(0, -1)],
      [2, ids(all.rows).slice(-1)],
      [3, []],
      [1_000_000, []],
    ] as const) {
      const { rows: shown, pagination } = await page(`?page=${number}&per_page=${perPage}`)
      expect<unknown>({ pagination, ids: ids(shown) }).toEqual({
        pagination: {
          page: number,
          per_page: perPage,
          total,
          total_pages: 2,
          ...(number === 1 && { next_cursor: expect.any(String) }),
        },
        ids: [...rows],
      })
    }
    const orderedBy = ['generated_at', 'created_at', 'received_at'].find((field) => field in (all.rows[0] ?? {})) ?? ''
    const times = all.rows.map((row) => String(at(row, orderedBy)))
    expect(times).toEqual(times.toSorted().reverse())
    expect(new Set(times).size).toBeGreaterThan(2)
  })

  // Proves: list-6
  test('has a cursor on each page but the last, and the pages together are the whole list', async () => {
    const all = await page('?per_page=100')
    expect(all.pagination).not.toHaveProperty('next_cursor')
    const seen: unknown[] = []
    const pages: unknown[] = []
    for (let query: string | undefined = '?per_page=1'; query !== undefined; ) {
      const { rows, pagination } = await page(query)
      seen.push(...rows)
      if (rows.length > 0) pages.push(pagination.page)
      const cursor = pagination.next_cursor
      query = cursor === undefined ? undefined : `?per_page=1&cursor=${cursor}`
    }
    expect(seen).toEqual(all.rows)
    expect(pages).toEqual(all.rows.map((_row, index) => index + 1))
  })

  // Proves: list-6
  test('rejects an invalid cursor, and a cursor beside a page', async () => {
    const next = String((await page('?per_page=1')).pagination.next_cursor)
    const texts = [
      '',
      'x',
      '%00',
      'a'.repeat(5000),
      ...['{}', '[]', '[-1]', '[1.5,2]', '["1"]', '[1,null]'].map(encoded),
    ]
    for (const text of texts)
      expectError(await service.api('GET', `${route.path}?cursor=${text}`), 422, 'validation_failed', 'cursor')
    expectError(await service.api('GET', `${route.path}?cursor=${next}&page=1`), 422, 'validation_failed', 'page')
  })

  // Proves: list-3, list-4
  test('rejects a page below 1 and anything but 1 to 100 rows', async () => {
    for (const wrong of ['0', '-1', '1.5', 'x', '', '1e1', '9'.repeat(30)]) {
      expectError(await service.api('GET', `${route.path}?page=${wrong}`), 422, 'validation_failed', 'page')
      expectError(await service.api('GET', `${route.path}?per_page=${wrong}`), 422, 'validation_failed', 'per_page')
    }
    expectError(await service.api('GET', `${route.path}?per_page=101`), 422, 'validation_failed', 'per_page')
    for (const right of ['?per_page=1', '?per_page=100', '?page=1']) await page(right)
  })
})
