/** @module Saves responses of `/v1` as files. */
import { ApiError, type QueryValues, send, toRequestError, toUrl } from './client.ts'

/**
 * Has the browser save a response of any length as a file. Only what forbids it is an error here: the browser reports
 * a download that breaks off.
 * @throws ApiError
 */
export async function download(path: string, query: QueryValues = {}): Promise<void> {
  const url = toUrl(path, query)
  // A HEAD begins nothing, but its response has no text.
  if (!(await send(url, { method: 'HEAD' })).ok) {
    const response = await send(url, { method: 'GET' })
    if (!response.ok) throw await toRequestError(response, 'GET', path)
    await response.body?.cancel()
    throw new ApiError(503, { code: 'unavailable', message: 'The server was busy. Try again.' })
  }
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}
