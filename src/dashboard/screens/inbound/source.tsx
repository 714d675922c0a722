/** @module The source of a received message: its beginning as text, all of it as a file. */
import { Anchor, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { TassisError } from '#client/client.ts'
import type { Read } from '../../api/client.ts'
import { formatBytes } from '../../parts/format.ts'
import { LongText } from '../../parts/long-text.tsx'
import { QueryView } from '../../parts/page.tsx'

/** A message may have 40 MiB. */
const MAX_SHOWN_BYTES = 256 * 1024

interface SourceProps {
  readonly raw: Read<Promise<Response>>
}

export function Source({ raw }: SourceProps) {
  const query = useQuery({
    queryKey: raw.queryKey,
    queryFn: ({ signal }) => readStart(raw, signal),
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
              <Anchor href={raw.url} download size="sm" underline="always">
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
  raw: SourceProps['raw'],
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly isCut: boolean } | null> {
  const response = await raw.call(signal).catch((error: unknown) => {
    if (error instanceof TassisError && (error.status === 404 || error.status === 410)) return null
    throw error
  })
  if (response === null) return null
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
