/** @module Suppression lists as files, as the tests of imports and exports send and read them. */
import type { ApiResponse, TestApi } from '#test/support/api.ts'

export async function importCsv(
  { url, key }: TestApi,
  body: string | Uint8Array,
  headers: Record<string, string> = { 'content-type': 'text/csv' },
  query = '',
): Promise<ApiResponse> {
  const response = await fetch(`${url}/v1/suppressions/import${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...headers },
    body: body as NonNullable<RequestInit['body']>,
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

export const exportCsv = ({ url, key }: TestApi): Promise<Response> =>
  fetch(`${url}/v1/suppressions/export`, { headers: { authorization: `Bearer ${key}` } })

export const imported = (
  data: { imported?: number; already_suppressed?: number; invalid?: number; ignored_columns?: string[] },
  errors: unknown = [],
) => {
  const full = { imported: 0, already_suppressed: 0, invalid: 0, ignored_columns: [], ...data }
  return {
    status: 200,
    body: { data: { ...full, total: full.imported + full.already_suppressed + full.invalid }, errors },
  }
}

export const pickStatusAndBody = ({ status, body }: ApiResponse) => ({ status, body })

/** Address, reason and stream of all suppressions, in the order in which they were added. */
export const rows = ({ app }: TestApi) =>
  app.db
    .query<Record<string, unknown>, []>('SELECT address, reason, covers, stream_id FROM suppressions ORDER BY id')
    .values()
