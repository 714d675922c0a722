/** @module The source of a received message: its beginning as text, all of it as a file. */
import { Anchor, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { ApiError } from '../../api/client.ts'
import { formatBytes } from '../../parts/format.ts'
import { LongText } from '../../parts/long-text.tsx'
import { QueryView } from '../../parts/page.tsx'

/** A message may have 40 MiB. */
const MAX_SHOWN_BYTES = 256 * 1024

interface SourceProps {
  /** Path of the raw message in `/v1`. */
  readonly path: string
}

export function Source({ path }: SourceProps) {
  const query = useQuery({
    queryKey: ['source', path],
    queryFn: ({ signal }) => readStart(path, signal),
    staleTime: 60_000,
  })
  return (
    <QueryView query={query}>
      {(start) =>
        start === null ? (
          <Text>The source is not stored any more; TASSIS_INBOUND_RAW_DAYS says for how many days it is.</Text>
        ) : (
          <Stack gap="xs">
            <LongText label="Source of the message" text={start.text} />
            <Text size="sm">
              {start.isCut && `The first ${formatBytes(MAX_SHOWN_BYTES)} are shown. `}
              <Anchor href={path} download size="sm" underline="always">
                Download the message
              </Anchor>
            </Text>
          </Stack>
        )
      }
    </QueryView>
  )
}

/** Reads no more than is shown. Null: it is not stored. */
async function readStart(
  path: string,
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly isCut: boolean } | null> {
  const response = await fetch(path, { signal, credentials: 'same-origin', cache: 'no-store' }).catch((error) => {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(0, { code: 'no_connection', message: 'The server cannot be reached.' })
  })
  if (response.status === 404 || response.status === 410) return null
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})))
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  while (reader && length < MAX_SHOWN_BYTES) {
    const { done, value } = await reader.read()
    if (done) return { text: text + decoder.decode(), isCut: false }
    text += decoder.decode(value.subarray(0, MAX_SHOWN_BYTES - length), { stream: true })
    length += value.length
  }
  await reader?.cancel()
  return { text, isCut: true }
}
