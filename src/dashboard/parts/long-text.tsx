/** @module Text of any length and from anyone, as it is. */
import { Button, Group, Text } from '@mantine/core'
import { useState } from 'react'

/** A browser lays out this much at once without a pause that is felt. */
const STEP_LENGTH = 100_000

interface LongTextProps {
  readonly label: string
  readonly text: string
}

/** A block that scrolls on its own, so it can have the focus; a long text is shown in steps. */
export function LongText({ label, text }: LongTextProps) {
  const [shownLength, setShownLength] = useState(STEP_LENGTH)
  const isCut = text.length > shownLength
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise it cannot be scrolled by keyboard */}
      <section className="long-text" dir="auto" aria-label={label} tabIndex={0}>
        {isCut ? text.slice(0, shownLength) : text}
      </section>
      {isCut && (
        <Group gap="xs" mt="xs">
          <Text size="sm">
            {shownLength.toLocaleString()} of {text.length.toLocaleString()} characters are shown.
          </Text>
          <Button size="xs" variant="default" onClick={() => setShownLength((length) => length + STEP_LENGTH)}>
            Show more
          </Button>
        </Group>
      )}
    </>
  )
}
