/** @module The wrong lines of an imported file. */
import { List, Text } from '@mantine/core'
import { Section } from './page.tsx'

interface LineProblemsProps {
  readonly title: string
  readonly problems: readonly { readonly line: number; readonly error: string }[]
  /** Of all wrong lines, of which only the first are known. */
  readonly count: number
}

export const LineProblems = ({ title, problems, count }: LineProblemsProps) =>
  problems.length > 0 && (
    <Section title={title}>
      {count > problems.length && (
        <Text size="sm">
          The first {problems.length} of {count.toLocaleString()}.
        </Text>
      )}
      <List size="sm">
        {problems.map(({ line, error }) => (
          <List.Item key={line}>
            Line {line.toLocaleString()}: <bdi>{error}</bdi>
          </List.Item>
        ))}
      </List>
    </Section>
  )
