/** @module Which HTML and CSS of a message the big mail clients do not fully support; computed in the browser. */
import { Code, Paper, Stack, Text, Title } from '@mantine/core'
import { useMemo } from 'react'
import { Section } from '../../parts/section.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { checkHtml, type Problem } from './check-html.ts'
import data from './email-support.json'
import type { EmailSupport } from './support-data.ts'

const SUPPORT = data as EmailSupport

export function HtmlCheck({ html }: { readonly html: string }) {
  const problems = useMemo(() => checkHtml(html, SUPPORT), [html])
  const unsupported = problems.filter((problem) => problem.unsupported > 0)
  const partial = problems.filter((problem) => problem.unsupported === 0)
  return (
    <Stack gap="md">
      <Text role="status">
        {problems.length === 0
          ? `Gmail, Outlook, Apple Mail, Yahoo and Samsung Email support all HTML and CSS of this email that is known here.`
          : `${problems.length} ${problems.length === 1 ? 'feature' : 'features'} of this email ${problems.length === 1 ? 'is' : 'are'} not fully supported by ${SUPPORT.clients.length} clients of Gmail, Outlook, Apple Mail, Yahoo and Samsung Email.`}
      </Text>
      <Problems title="Not supported by some clients" problems={unsupported} />
      <Problems title="Supported everywhere, with limits" problems={partial} />
      <Text size="sm" c="dimmed">
        Data: caniemail.com of {SUPPORT.updatedAt}. The check runs in this browser and sends nothing. Lines are those of
        the HTML part.
      </Text>
    </Stack>
  )
}

const Problems = ({ title, problems }: { readonly title: string; readonly problems: readonly Problem[] }) =>
  problems.length === 0 ? null : (
    <Section title={`${title} (${problems.length})`} order={3} size="h5" gap="xs">
      {problems.map((problem) => (
        <ProblemView key={problem.slug} problem={problem} />
      ))}
    </Section>
  )

function ProblemView({ problem }: { readonly problem: Problem }) {
  const { slug, title, without, partly, notes, unsupported, supported, known } = problem
  return (
    <Paper withBorder p="sm" data-feature={slug}>
      <Stack gap={4}>
        <Title order={4} size="h6">
          {title}
        </Title>
        <StatusLabel tone={unsupported > 0 ? 'bad' : 'warning'}>
          {`Full support in ${supported} of ${known} clients (${Math.round((100 * supported) / known)} %)`}
        </StatusLabel>
        <Text size="sm">
          {toPlace(problem)}: <Code>{problem.excerpt}</Code>
        </Text>
        {without.length > 0 && <Text size="sm">Not supported: {without.join(', ')}</Text>}
        {partly.length > 0 && <Text size="sm">Partly supported: {partly.join(', ')}</Text>}
        {notes.length > 0 && (
          <details>
            <summary>{notes.length === 1 ? '1 note' : `${notes.length} notes`}</summary>
            {notes.map(({ clients, text }) => (
              <Text size="sm" key={text}>
                {clients.join(', ')}: {text}
              </Text>
            ))}
          </details>
        )}
      </Stack>
    </Paper>
  )
}

function toPlace({ lines, count }: Problem): string {
  const shown = `${lines.length === 1 ? 'Line' : 'Lines'} ${lines.join(', ')}`
  return count > lines.length ? `${shown}, used ${count} times` : shown
}
