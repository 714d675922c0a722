/** @module What is saved of the wording, as readers see it. */
import { NativeSelect, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { Language } from '#platform/http/language.ts'
import { PLACE_NAMES, PLACES, type PlaceName } from './wording-fields.ts'

interface WordingPreviewProps {
  readonly language: Language
  /** Changes when the wording was read again. */
  readonly version: number
}

export function WordingPreview({ language, version }: WordingPreviewProps) {
  const [place, setPlace] = useState<PlaceName>('mail')
  const src = `/app/wording/${place}?language=${language}&version=${version}`
  return (
    <Stack gap="xs">
      <NativeSelect
        maw={260}
        label="Mail or page"
        value={place}
        onChange={(event) => setPlace(event.currentTarget.value as PlaceName)}
        data={PLACE_NAMES.map((value) => ({ value, label: PLACES[value].label }))}
      />
      <iframe
        // A new element: changing the address of a frame would add to the history.
        key={src}
        className="mail-frame"
        title="Preview"
        sandbox=""
        referrerPolicy="no-referrer"
        src={src}
      />
      <Text size="sm" c="dimmed">
        As it is saved, for a list “Customers”. Links and buttons do not work here.
      </Text>
    </Stack>
  )
}
