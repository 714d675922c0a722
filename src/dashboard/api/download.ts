/** @module Saves responses of `/v1` as files. */
import { TassisError } from '#client/client.ts'
import { fetchWithSession } from './client.ts'

/**
 * Has the browser save a response of any length as a file. Only what forbids it is an error here: the browser reports
 * a download that breaks off.
 * @param url as `read` has it
 * @throws TassisError
 */
export async function download(url: string): Promise<void> {
  // A HEAD begins nothing, but its response has no text.
  if (!(await fetchWithSession(url, { method: 'HEAD' })).ok) {
    const response = await fetchWithSession(url, { method: 'GET' })
    if (!response.ok) throw new TassisError(response.status, await response.json().catch(() => ({})))
    await response.body?.cancel()
    throw new TassisError(503, { code: 'unavailable', message: 'The server was busy. Try again.' })
  }
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}

/** Has the browser save a text that was made here. */
export function saveText(text: string, name: string, type: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href))
}
