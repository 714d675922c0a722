/** @module Shows what differs between two texts. Removed and added lines have a sign, a word and a colour. */
import { Button, Stack, Text, Title, VisuallyHidden } from '@mantine/core'
import { useMemo, useState } from 'react'
import { type DiffGap, type DiffLine, diffLines, summariseDiff } from './line-diff.ts'

interface DiffViewProps {
  readonly title: string
  readonly before: string
  readonly after: string
}

const STEP_ROWS = 300
/** More of a line is laid out only with a pause that is felt. */
const MAX_LINE_LENGTH = 2000

export function DiffView({ title, before, after }: DiffViewProps) {
  const rows = useMemo(() => summariseDiff(diffLines(before, after)), [before, after])
  const [shownRows, setShownRows] = useState(STEP_ROWS)
  return (
    <Stack gap="xs">
      <Title order={3} size="h5">
        {title}
      </Title>
      {rows.length === 0 ? (
        <Text size="sm">No difference.</Text>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise it cannot be scrolled by keyboard
        <section className="diff" aria-label={`Changes of ${title}`} tabIndex={0}>
          {rows.slice(0, shownRows).map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no other identity
            <DiffRow key={index} row={row} />
          ))}
        </section>
      )}
      {rows.length > shownRows && (
        <div>
          <Button size="xs" variant="default" onClick={() => setShownRows((count) => count + STEP_ROWS)}>
            Show more of {rows.length.toLocaleString()} lines
          </Button>
        </div>
      )}
    </Stack>
  )
}

const SIGNS = { same: '\u00a0', removed: '−', added: '+' } as const
const WORDS = { same: '', removed: 'Removed: ', added: 'Added: ' } as const

function DiffRow({ row }: { readonly row: DiffLine | DiffGap }) {
  if (row.kind === 'gap')
    return (
      <div className="diff-gap">
        {row.lines === 1 ? '1 line is the same' : `${row.lines.toLocaleString()} lines are the same`}
      </div>
    )
  const { kind, text } = row
  return (
    <div className={`diff-line diff-${kind}`}>
      <span aria-hidden="true">{SIGNS[kind]}</span>
      <VisuallyHidden>{WORDS[kind]}</VisuallyHidden>
      <span dir="auto">
        {text.length > MAX_LINE_LENGTH
          ? `${text.slice(0, MAX_LINE_LENGTH)}… (${text.length.toLocaleString()} characters)`
          : text}
      </span>
    </div>
  )
}
