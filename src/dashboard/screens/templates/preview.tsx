/** @module What the template renders with the data, beside the editor. */
import { Alert, Button, Group, SegmentedControl, Stack, Text, Title } from '@mantine/core'
import { useState } from 'react'
import { FormError } from '../../parts/form-error.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import type { Rendering } from './use-rendered.ts'

const VIEWS = [
  { value: 'desktop', label: 'Desktop' },
  { value: 'phone', label: 'Phone' },
  { value: 'text', label: 'Text' },
] as const
type View = (typeof VIEWS)[number]['value']

interface PreviewProps {
  readonly rendering: Rendering
  /** Why nothing can be rendered now. */
  readonly obstacle: string | undefined
}

export function Preview({ rendering, obstacle }: PreviewProps) {
  const [view, setView] = useState<View>('desktop')
  const { result, error, retry } = rendering
  return (
    <Stack component="section" aria-labelledby="preview" gap="xs" className="template-preview">
      <Group justify="space-between" gap="xs">
        <Title order={2} size="h4" id="preview">
          Preview
        </Title>
        <SegmentedControl
          size="xs"
          aria-label="Preview as"
          data={VIEWS.map((item) => ({ ...item }))}
          value={view}
          onChange={(value) => setView(value as View)}
        />
      </Group>
      <Text size="sm" role="status">
        {toStateText(rendering, obstacle)}
      </Text>
      {error !== undefined && (
        <>
          <FormError error={error} />
          <Group>
            <Button size="xs" variant="default" onClick={retry}>
              Try again
            </Button>
          </Group>
        </>
      )}
      {result && result.subject !== null && (
        <Text>
          <Text span c="dimmed" size="sm">
            Subject:{' '}
          </Text>
          <b>
            <bdi>{result.subject}</bdi>
          </b>
        </Text>
      )}
      <Body rendering={rendering} view={view} />
    </Stack>
  )
}

function toStateText({ result, isCurrent, error }: Rendering, obstacle: string | undefined): string {
  if (obstacle !== undefined) return obstacle
  if (error !== undefined) return 'The preview is not up to date.'
  if (!isCurrent || !result) return 'Rendering…'
  const count = result.problems.length
  if (count === 0) return 'This is what is sent with the data.'
  return count === 1
    ? '1 problem: a send with this data is refused.'
    : `${count} problems: a send with this data is refused.`
}

function Body({ rendering: { result, lastShown }, view }: { readonly rendering: Rendering; readonly view: View }) {
  if (!result) return null
  if (view === 'text')
    return result.text_body === null ? (
      <Text size="sm">
        {hasProblem(result, 'text_body')
          ? 'The text has an error.'
          : 'Without a text of its own, the email gets one that is made from its HTML.'}
      </Text>
    ) : (
      <LongText label="Text of the preview" text={result.text_body} />
    )
  const isBroken = hasProblem(result, 'html_body') || hasProblem(result, 'template_data')
  const shown = result.preview_id !== null ? result : isBroken ? lastShown : undefined
  return (
    <>
      {isBroken && shown !== undefined && (
        <Alert variant="default" p="xs">
          <Text size="sm">The HTML has an error. Below it is as it was before.</Text>
        </Alert>
      )}
      {shown ? (
        <div className={view === 'phone' ? 'preview-phone' : undefined}>
          <MailFrame html={shown.html_body ?? ''} src={`/app/previews/${shown.preview_id}`} />
        </div>
      ) : (
        <Text size="sm">{isBroken ? 'The HTML has an error.' : 'The template has no HTML.'}</Text>
      )}
    </>
  )
}

const hasProblem = ({ problems }: NonNullable<Rendering['result']>, name: string): boolean =>
  problems.some(({ field }) => field === name)
