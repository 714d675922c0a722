import { Page } from '../parts/page.tsx'

export const AudienceScreen = () => <Page title="Audience">Not built</Page>
