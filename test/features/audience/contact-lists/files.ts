/** @module Contact files for tests: lists, uploads, operations, and the contacts and files that are stored. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type ApiResponse, at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'

type Json = Record<string, unknown>

/** Creates a list; returns its id. */
export async function createList({ api }: Pick<TestApi, 'api'>, fields: Json = {}): Promise<string> {
  const answer = await api('POST', '/v1/contact-lists', { name: 'People', ...fields })
  return String(at(answer.body, 'data', 'id'))
}

/** Posts a file to a list. */
export async function postFile(
  { url, key }: Pick<TestApi, 'url' | 'key'>,
  list: string,
  body: string | Uint8Array | ReadableStream<Uint8Array>,
  { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
): Promise<ApiResponse> {
  const response = await fetch(`${url}/v1/contact-lists/${list}/contacts/import${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'text/csv', ...headers },
    body: body as NonNullable<RequestInit['body']>,
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

/** The operation of an accepted import, once it has ended. */
export async function waitForEnd(service: Pick<TestApi, 'api'>, posted: ApiResponse): Promise<Json> {
  if (posted.status !== 202) throw new Error(`refused: ${JSON.stringify(posted.body)}`)
  const id = String(at(posted.body, 'data', 'operation_id'))
  return eventually(async () => {
    const operation = at((await service.api('GET', `/v1/operations/${id}`)).body, 'data') as Json
    return operation['completed_at'] !== null && operation
  })
}

/** Posts a file and waits for the end of its import; returns its operation. */
export async function imported(
  service: TestApi,
  list: string,
  file: string | Uint8Array,
  query?: string,
): Promise<Json> {
  const operation = await waitForEnd(service, await postFile(service, list, file, query === undefined ? {} : { query }))
  const { operation_type, status, total_items, completed_items, failed_items, error_summary, metadata } = operation
  const { inserted, duplicates, errors } = metadata as Json
  return {
    operation_type,
    status,
    items: [total_items, completed_items, failed_items],
    error_summary,
    inserted,
    duplicates,
    errors,
  }
}

/** The operation of a completed import without errors. */
export const completed = (inserted: number, duplicates = 0) => ({
  operation_type: 'bulk_import',
  status: 'completed',
  items: [inserted + duplicates, inserted + duplicates, 0],
  error_summary: null,
  inserted,
  duplicates,
  errors: [],
})

/** Address, status and metadata of all contacts of a list, oldest first. */
export async function listContacts({ api }: Pick<TestApi, 'api'>, list: string): Promise<unknown[]> {
  const rows: unknown[] = []
  for (let page = 1; ; page++) {
    const { body } = await api('GET', `/v1/contact-lists/${list}/contacts?per_page=100&page=${page}`)
    const data = at(body, 'data') as Json[]
    if (data.length === 0) return rows.reverse()
    rows.push(...data.map(({ email, status, metadata }) => [email, status, metadata]))
  }
}

/** Files that wait to be imported, or were left over. */
export const spooledFiles = ({ dataDir }: Pick<TestApi, 'dataDir'>): string[] => {
  const folder = join(dataDir, 'imports')
  return existsSync(folder) ? readdirSync(folder) : []
}

/** Contacts on all lists. */
export const contactCount = ({ app }: Pick<TestApi, 'app'>): number =>
  app.db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM contacts').get()?.n ?? 0

/**
 * Holds the imports of a service: each waits after the batch that it stores, until the returned function is called, so
 * that a test can act in the middle of a file, however slow its requests are.
 */
export function holdImports({ app }: Pick<TestApi, 'app'>): () => void {
  const released = Promise.withResolvers<void>()
  const { write } = app.commit
  const sql = app.db.prepare<{ n: number }, []>('SELECT coalesce(sum(done_lines), 0) AS n FROM contact_imports')
  const doneLines = () => sql.get()?.n ?? 0
  app.commit.write = async (run, options) => {
    let isBatch = false
    const result = await write.call(
      app.commit,
      (tx) => {
        const before = doneLines()
        const value = run(tx)
        isBatch = doneLines() > before
        return value
      },
      options,
    )
    if (isBatch) await released.promise
    return result as never
  }
  return () => released.resolve()
}

/** The export of a list. */
export async function exportFile({ url, key }: TestApi, list: string, query = ''): Promise<Response> {
  return fetch(`${url}/v1/contact-lists/${list}/contacts/export${query}`, {
    headers: { authorization: `Bearer ${key}` },
  })
}
