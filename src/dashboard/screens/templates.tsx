import { Page } from '../parts/page.tsx'

export const TemplatesScreen = () => <Page title="Templates">Not built</Page>
